#include <penstock/ws/callbacks.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <optional>
#include <stdexcept>

#include <penstock/detail/task/budget_operation.hpp>
#include <penstock/detail/task/deadline.hpp>
#include <penstock/event_loop.hpp>
#include <penstock/io/owner_of.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/ws/errors.hpp>

#include "ws/conversation.hpp"

namespace penstock::ws {

using codec::websocket::Role;

/// What is published to the connection.
class CallbackSocket::Member final : public detail::TopicMember {
public:
    explicit Member(CallbackSocket& socket) noexcept : socket_(socket) {}
    ~Member() = default;
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

private:
    bool take(const void* topic, const SharedMessage& message) override {
        const Sent sent = socket_.send_shared(topic, message);
        return sent == Sent::now || sent == Sent::waiting;
    }
    void forget(const void* topic) noexcept override {
        if (socket_.backlog_) {
            socket_.backlog_->forget(topic);
        }
    }

    CallbackSocket& socket_;
};

/// A task of the connection. The last one frees it when it has ended.
class CallbackSocket::Running {
public:
    explicit Running(CallbackSocket& socket) noexcept : socket_(socket) {}
    ~Running() {
        if (--socket_.tasks_ == 0 && socket_.ended_ && !socket_.stranded_) {
            delete &socket_;
        }
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

private:
    CallbackSocket& socket_;
};

CallbackSocket::CallbackSocket() noexcept : InputHook(&on_input), Timer(&on_time) {}

CallbackSocket::~CallbackSocket() {
    if (seat_) {
        stop_resting();
        leave_home();
    }
}

void CallbackSocket::leave_home() noexcept {
    seat_->loop().unlist(*this);
    seat_->home().residents.remove(*this);
}

void CallbackSocket::open(WebSocket&& accepted, std::unique_ptr<penstock::detail::Seat> seat,
                          const AcceptOptions& accept, const SubscriberOptions& slow) {
    socket_ = std::make_unique<WebSocket>(std::move(accepted));
    accept_ = &accept;
    slow_ = &slow;
    seat_ = std::move(seat);
    seat_->home().residents.push_back(*this);
    seat_->loop().keep(*this);
    opening_ = true;
    call([this] { opened(); });
    opening_ = false;
    socket_->forget_head();
    go_on();
}

std::string_view CallbackSocket::target() const noexcept {
    return opening_ ? socket_->target() : std::string_view();
}

codec::http::Fields CallbackSocket::fields() const {
    return opening_ ? socket_->fields() : codec::http::Fields();
}

std::string_view CallbackSocket::subprotocol() const noexcept {
    return opening_ ? socket_->subprotocol() : std::string_view();
}

bool CallbackSocket::subscribe(Topics& topics, std::string_view topic) {
    if (!member_) {
        member_ = std::make_unique<Member>(*this);
    }
    return member_->subscribe(topics, topic);
}

bool CallbackSocket::unsubscribe(Topics& topics, std::string_view topic) noexcept {
    return member_ && member_->unsubscribe(topics, topic);
}

void CallbackSocket::close(std::uint16_t code, std::string reason) {
    if (code != close_code::none && !codec::websocket::may_be_sent(code)) {
        throw std::invalid_argument("ws::CallbackSocket::close: no close frame may have the code " +
                                    std::to_string(code) +
                                    "; use 1000 to 1003, 1007 to 1014 or 3000 to 4999");
    }
    if (takes_nothing()) {
        return;
    }
    if (Ending* const ending = begin_ending()) {
        ending->code = code;
        ending->reason = std::move(reason);
    }
    interrupt();
}

/// By the server's stop.
void CallbackSocket::end() noexcept {
    try {
        close(close_code::going_away, detail::stop_reason);
    } catch (const std::bad_alloc&) {
        strand();
    }
}

/// By the server's end.
void CallbackSocket::leave() noexcept {
    say_closed();
    if (ending_ && ending_->thrown) {
        seat_->report({}, ending_->thrown);
    }
    if (stranded_) { // its work waits in the loop, and frees it
        leave_home();
        seat_.reset();
        return;
    }
    delete this;
}

CallbackSocket::Ending* CallbackSocket::begin_ending() noexcept {
    try {
        if (!ending_) {
            ending_ = std::make_unique<Ending>();
        }
    } catch (const std::bad_alloc&) {
        strand();
    }
    return ending_.get();
}

/// Calls a function of the handler. Whoever does must look at `ending_` then.
template <typename Call> void CallbackSocket::call(Call function) noexcept {
    busy_ = true;
    try {
        function();
    } catch (...) {
        if (Ending* const ending = begin_ending()) {
            ending->thrown = std::current_exception();
        }
    }
    busy_ = false;
}

// Resting. A connection that waits for a message has no task. The dispatcher calls it when there is
// input, and when nothing has come for too long. It handles whole messages itself, and starts a
// task for anything else: fragments, control frames, the end.

void CallbackSocket::on_input(penstock::detail::InputHook& hook) noexcept {
    static_cast<CallbackSocket&>(hook).take_input();
}

void CallbackSocket::on_time(io::Work& work) {
    auto& self = static_cast<CallbackSocket&>(io::owner_of<&io::Timer::work>(work));
    if (!self.stranded_) {
        self.start(true);
        return;
    }
    self.stranded_ = false;
    self.stream().close();
    self.say_closed();
    if (self.tasks_ == 0) {
        delete &self;
    }
}

void CallbackSocket::take_input() noexcept {
    EventLoop& loop = EventLoop::current();
    loop.refill_budget();
    Result<Chunk> chunk = stream().socket()->try_receive();
    if (!chunk && chunk.error() == std::errc::operation_would_block) {
        if (const Result<> watched = stream().socket()->watch_input(*this, loop); !watched) {
            fail(watched.error());
        }
        return;
    }
    stop_resting();
    try {
        wake();
        (void)socket_->connection_->decoder();
    } catch (const std::bad_alloc&) {
        strand();
        return;
    }
    detail::Connection& connection = *socket_->connection_;
    if (const Result<> taken = socket_->take(std::move(chunk)); !taken) {
        fail(taken.error());
        return;
    }
    while (!ending_) {
        const WebSocket::Event event = connection.take_whole();
        if (event.kind == codec::websocket::MessageDecoder::Kind::incomplete) {
            break;
        }
        connection.deliver(event.payload);
        call([&] { received(WebSocket::message_of(event)); });
        if (!loop.consume_budget()) {
            break;
        }
    }
    go_on();
}

/// After the handler was called outside of a task.
void CallbackSocket::go_on() noexcept {
    if (stranded_) { // its work is queued, so it must not become a timer
        return;
    }
    if (ending_ || socket_->connection_->holds_input() || stream().socket() == nullptr) {
        start(false);
    } else {
        rest();
    }
}

/// Waits without a task. All input is decoded.
void CallbackSocket::rest() noexcept {
    detail::Connection& connection = *socket_->connection_;
    connection.release_input();
    const std::chrono::milliseconds patience = socket_->patience();
    pinged_ = connection.pinged;
    waits_for_idle_ = connection.waits_for_idle;
    idle_until_ = connection.idle_until;
    shed();
    EventLoop& loop = EventLoop::current();
    try {
        if (patience.count() > 0) {
            loop.timers().add(
                *this, penstock::detail::deadline_after(patience, io::coarse_monotonic_now()));
        }
        if (const Result<> watched = stream().socket()->watch_input(*this, loop); !watched) {
            fail(watched.error());
        }
    } catch (const std::bad_alloc&) {
        strand();
    }
}

/// Frees what it does not need while it rests. A compressor has its window.
void CallbackSocket::shed() noexcept {
    if (backlog_ && backlog_->size() == 0 && backlog_->dropped() == 0) {
        backlog_.reset();
    }
    const detail::Connection& connection = *socket_->connection_;
    if (!connection.compressor && !flushing_ && !connection.has_pending() &&
        !connection.refusal()) {
        stream_ = std::move(socket_->next_layer());
        socket_.reset();
    }
}

/// Undoes `shed`. Throws `std::bad_alloc`.
void CallbackSocket::wake() {
    if (!socket_) {
        socket_ = std::unique_ptr<WebSocket>(
            new WebSocket(std::move(stream_), Role::server, accept_->limits));
        detail::Connection& connection = *socket_->connection_;
        connection.pinged = pinged_;
        connection.waits_for_idle = waits_for_idle_;
        connection.idle_until = idle_until_;
    }
}

void CallbackSocket::stop_resting() noexcept {
    if (scheduled()) {
        EventLoop::current().timers().cancel(*this);
    }
    if (net::StreamSocket* const below = stream().socket()) {
        below->forget_input(*this);
    }
}

/// Starts the task that receives and ends the connection, unless it runs.
void CallbackSocket::start(bool silent) noexcept {
    if (main_ || stranded_ || ended_) {
        return;
    }
    stop_resting();
    try {
        wake();
        spawn(run(silent));
        main_ = true;
    } catch (const std::bad_alloc&) {
        strand();
    }
}

void CallbackSocket::spawn(Task<void> task) {
    seat_->home().scope->spawn(std::move(task));
    ++tasks_;
}

/// There is no memory to end it in a task.
void CallbackSocket::strand() noexcept {
    if (!stranded_ && !ended_) {
        stop_resting();
        stranded_ = true;
        EventLoop::current().schedule(work);
    }
}

void CallbackSocket::fail(std::error_code error) noexcept {
    if (Ending* const ending = begin_ending(); ending != nullptr && !ending->failure) {
        ending->failure = error;
    }
    interrupt();
}

/// Makes the connection end, as `ending_` tells.
void CallbackSocket::interrupt() noexcept {
    if (busy_) { // whoever has called the handler goes on
        return;
    }
    if (receiving_ != nullptr) {
        receiving_->cancel();
    } else {
        start(false);
    }
}

void CallbackSocket::say_closed() noexcept {
    if (std::exchange(ended_, true)) {
        return;
    }
    const std::uint16_t told = socket_ ? socket_->close_code() : std::uint16_t{0};
    call([&] {
        closed(told != 0 ? told : close_code::abnormal,
               socket_ ? socket_->close_reason() : std::string_view());
    });
    member_.reset();
}

// Sending.

bool CallbackSocket::takes_nothing() const noexcept {
    return ending_ || stranded_ || ended_ || seat_->home().scope == nullptr;
}

bool CallbackSocket::may_write_now() const noexcept {
    if (flushing_ || (backlog_ && backlog_->size() > 0)) {
        return false;
    }
    if (!socket_) {
        return true;
    }
    const detail::Connection& connection = *socket_->connection_;
    return !connection.messages.locked() && !connection.frames.locked() &&
           !connection.has_pending();
}

Sent CallbackSocket::send_frame(Opcode opcode, Bytes payload) {
    if (takes_nothing()) {
        return Sent::closed;
    }
    if (stream().socket() == nullptr || !may_write_now()) {
        const std::string_view text(reinterpret_cast<const char*>(payload.data()), payload.size());
        return put_back(nullptr, opcode == Opcode::text ? SharedMessage::text(text)
                                                        : SharedMessage::binary(payload));
    }
    if (socket_ && socket_->connection_->refusal()) {
        return Sent::closed;
    }
    if (socket_) {
        if (const Bytes whole = socket_->connection_->frame_in_place(opcode, payload);
            !whole.empty()) {
            return write_now(std::span(&whole, 1));
        }
    }
    detail::OutgoingFrame frame =
        socket_ ? socket_->connection_->frame_of(opcode, payload, {})
                : detail::OutgoingFrame(Role::server, opcode, payload, {},
                                        detail::OutgoingFrame::Place::elsewhere);
    (void)frame.next();
    const std::array parts{frame.head(), frame.body()};
    const Sent sent = write_now(std::span(parts).first(frame.body().empty() ? 1 : 2));
    if (socket_) {
        socket_->connection_->release_output();
    }
    return sent;
}

Sent CallbackSocket::send_shared(const void* topic, const SharedMessage& message) {
    if (takes_nothing()) {
        return Sent::closed;
    }
    if (stream().socket() == nullptr || !may_write_now()) {
        return put_back(topic, message);
    }
    if (socket_ && socket_->connection_->refusal()) {
        return Sent::closed;
    }
    const Bytes frame = socket_ ? socket_->connection_->frame_of(message) : message.frame();
    return write_now(std::span(&frame, 1));
}

Sent CallbackSocket::put_back(const void* topic, const SharedMessage& message) {
    if (!backlog_) {
        backlog_ = std::make_unique<detail::Backlog>();
    }
    switch (backlog_->take(*slow_, topic, message)) {
    case detail::Backlog::Taken::yes:
        if (!flushing_) {
            start_flush({});
        }
        return Sent::waiting;
    case detail::Backlog::Taken::dropped:
        return Sent::dropped;
    case detail::Backlog::Taken::too_slow:
        close(close_code::try_again_later, "the client reads too slowly");
        return Sent::closed;
    }
    return Sent::closed;
}

/// Writes a frame. What does not fit is copied.
Sent CallbackSocket::write_now(std::span<const Bytes> parts) {
    const Result<std::size_t> written = stream().socket()->try_write(parts);
    if (!written) {
        fail(written.error());
        return Sent::closed;
    }
    try {
        std::vector<std::byte> left;
        std::size_t skipped = *written;
        for (const Bytes& part : parts) {
            const std::size_t taken = std::min(skipped, part.size());
            skipped -= taken;
            const Bytes tail = part.subspan(taken);
            left.insert(left.end(), tail.begin(), tail.end());
        }
        if (left.empty()) {
            return Sent::now;
        }
        start_flush(std::move(left));
        return Sent::waiting;
    } catch (const std::bad_alloc&) { // a part of a frame may be all that was sent
        stream().close();
        fail(std::make_error_code(std::errc::not_enough_memory));
        return Sent::closed;
    }
}

/// `part` is the rest of a frame that was begun.
void CallbackSocket::start_flush(std::vector<std::byte> part) {
    wake();
    Turn message;
    Turn frame;
    if (!part.empty()) { // a pong must not come between
        message = socket_->connection_->messages.try_lock();
        frame = socket_->connection_->frames.try_lock();
    }
    spawn(flush(std::move(part), std::move(message), std::move(frame)));
    flushing_ = true;
}

Task<void> CallbackSocket::flush(std::vector<std::byte> part, Turn message, Turn frame) {
    const Running running(*this);
    WebSocket& socket = *socket_;
    Result<> sent;
    try {
        if (!part.empty()) {
            detail::FrameWrite writing(*socket.connection_);
            sent = writing.end(co_await stream().socket()->write_all(Bytes(part)));
            if (sent) {
                sent = co_await socket.write_pending();
            }
            part = {};
            frame.unlock();
            message.unlock();
        }
        while (sent) {
            const std::optional<SharedMessage> next = backlog_ ? backlog_->next() : std::nullopt;
            if (!next) {
                break;
            }
            sent = co_await socket.send(*next);
        }
    } catch (const std::bad_alloc&) {
        sent = failure(std::errc::not_enough_memory);
        frame.unlock(); // what they lock may go before the parameters
        message.unlock();
    }
    flushing_ = false;
    if (ended_) {
        co_return;
    }
    if (!sent) {
        if (sent.error() != Error::closed) {
            fail(sent.error());
        }
        co_return;
    }
    if (!ending_) {
        call([this] { drained(); });
    }
    if (ending_) {
        interrupt();
    } else if (!main_) {
        shed();
    }
}

// The task.

/// Receives until the connection may rest, or must end.
Task<void> CallbackSocket::run(bool silent) {
    const Running running(*this);
    std::error_code end;
    std::exception_ptr thrown;
    try {
        end = co_await converse(silent);
    } catch (...) { // no memory
        thrown = std::current_exception();
    }
    if (!end && !thrown && !ending_ && !stranded_) {
        main_ = false;
        rest();
        co_return;
    }
    if (ending_) {
        end = ending_->failure ? ending_->failure : end;
        thrown = ending_->thrown ? ending_->thrown : thrown;
    }
    const bool answers_no_ping =
        end == std::errc::timed_out && socket_->close_code() == close_code::abnormal;
    if (answers_no_ping || detail::is_end_of_connection(end)) {
        end = {};
    }
    const bool fails = end || thrown;
    try {
        co_await say_goodbye(fails);
    } catch (...) {
        thrown = thrown ? thrown : std::current_exception();
    }
    stream().close(); // what still waits to be sent is given up
    say_closed();
    if (ending_ && ending_->thrown) {
        thrown = ending_->thrown;
    }
    if (end || thrown) {
        seat_->report(end, thrown);
    }
}

Task<std::error_code> CallbackSocket::converse(bool silent) {
    using Kind = codec::websocket::MessageDecoder::Kind;
    WebSocket& socket = *socket_;
    detail::Connection& connection = *socket.connection_;
    const WebSocket::Receiving receiver(connection.receiving);
    Canceller canceller;
    if (silent) {
        if (const Result<> told = co_await socket.on_silence(); !told) {
            co_return told.error();
        }
    }
    while (!ending_) {
        if (connection.end) {
            connection.release_input();
            co_return connection.end;
        }
        const WebSocket::Event event = connection.decoder().next(connection.rest);
        Result<> done;
        switch (event.kind) {
        case Kind::text:
        case Kind::binary:
            connection.deliver(event.payload);
            call([&] { received(WebSocket::message_of(event)); });
            (void)co_await penstock::detail::BudgetOperation();
            break;
        case Kind::incomplete: {
            if (stream().socket() != nullptr && connection.decoder().at_rest()) {
                co_return std::error_code();
            }
            connection.chunk = {}; // all of it is decoded, and this may wait for long
            connection.release_decoder();
            receiving_ = &canceller;
            done = co_await cancellable(canceller, socket.feed(true));
            receiving_ = nullptr;
            break;
        }
        default:
            done = co_await socket.handle(event);
        }
        if (!done && !(ending_ && done.error() == std::errc::operation_canceled)) {
            co_return done.error();
        }
    }
    co_return std::error_code();
}

/// Sends what waits and a close frame, and waits for the peer's.
Task<void> CallbackSocket::say_goodbye(bool fails) {
    WebSocket& socket = *socket_;
    detail::Connection& connection = *socket.connection_;
    while (!fails && !connection.end) {
        const std::optional<SharedMessage> next = backlog_ ? backlog_->next() : std::nullopt;
        if (!next || !co_await socket.send(*next)) {
            break;
        }
    }
    if (flushing_ && !fails && !connection.end) { // the last message may wait in `flush`
        (void)co_await connection.messages.lock();
    } else if (flushing_ && connection.end == Error::closed) { // the answer waits behind a frame
        (void)co_await penstock::detail::run_until_deadline(connection.close_deadline(),
                                                            socket.send_close({}));
        co_await socket.end_stream();
    }
    const std::uint16_t code = ending_ ? ending_->code : close_code::normal;
    // Whether the peer answers says nothing about the conversation.
    (void)co_await socket.close(fails ? close_code::internal_error : code,
                                fails || !ending_ ? std::string() : ending_->reason);
}

void Callbacks::open(WebSocket&& accepted, std::unique_ptr<penstock::detail::Seat> seat,
                     const AcceptOptions& accept) const {
    std::unique_ptr<CallbackSocket> socket = maker_->make();
    socket->open(std::move(accepted), std::move(seat), accept, maker_->slow);
    (void)socket.release(); // NOLINT(bugprone-unused-return-value): it owns itself
}

} // namespace penstock::ws
