#include "http/connection.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <sys/socket.h>

#include <penstock/detail/task/budget_operation.hpp>
#include <penstock/detail/task/deadline.hpp>
#include <penstock/http/errors.hpp>
#include <penstock/task/timeout.hpp>

#include "http/upgraded_connection.hpp"

namespace penstock::http::detail {

using penstock::detail::time_limit;

namespace {

/// What a stream that lends no buffers is read into.
constexpr std::size_t room_size = std::size_t{8} * 1024;
/// What is read and dropped after the last response.
constexpr std::size_t linger_size = std::size_t{1024} * 1024;

std::string_view text_of(Bytes bytes) noexcept {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

} // namespace

Connection::Connection(ServerState& server, AnyStream stream, Accepted accepted)
    : ServerExchange(server), stream_(std::move(stream)), socket_(stream_.socket()),
      number_(server.accepted++), accepted_(accepted),
      parser_(server.field_storage, server.codec_limits) {
    limit_writes();
    server_.open.push_back(*this);
    if (server_.options.metrics) {
        server_.options.metrics->connection_opened();
    }
}

Connection::~Connection() {
    server_.accept_loop.unlist(*this);
    if (!left_) {
        server_.open.remove(*this);
    }
    if (server_.options.metrics && !left_) {
        server_.options.metrics->connection_closed();
    }
    count_abandoned();
}

Task<void> Connection::serve() {
    std::exception_ptr thrown;
    try {
        const Result<> ended = co_await with_deadline(time_limit(server_.options.timeouts.idle),
                                                      [this](Deadline& deadline) -> Task<Result<>> {
                                                          deadline_ = &deadline;
                                                          return run();
                                                      });
        deadline_ = nullptr;
        co_await say_goodbye(ended);
    } catch (...) {
        thrown = std::current_exception();
    }
    deadline_ = nullptr;
    if (thrown) {
        report({}, thrown);
    }
}

/// Tells the client as much of the end as it can understand.
Task<void> Connection::say_goodbye(Result<> ended) {
    const bool late = !ended && ended.error() == std::errc::timed_out;
    const auto limit = time_limit(server_.options.timeouts.linger);
    if (http2_) {
        (void)co_await timeout(limit, http2_->say_goodbye());
        co_return;
    }
    if (late && phase_ != Phase::idle && reading_until_ != never && !response_started() &&
        !stream_error_) {
        (void)co_await timeout(limit, refuse(Status::request_timeout));
    }
    if (linger_) {
        (void)co_await timeout(limit, linger());
    } else if (!ended && phase_ == Phase::handling && response_started()) {
        abort_on_close();
    } else if (socket_ == nullptr && !stream_error_ && (ended || late)) {
        // The end of an encrypted stream (RFC 8446, section 6.1). The client's is not awaited.
        (void)co_await timeout(limit, stream_.shutdown());
    }
}

void Connection::end() noexcept {
    try {
        if (deadline_ != nullptr) {
            deadline_->expire_after(std::chrono::nanoseconds(0));
        }
    } catch (const std::bad_alloc&) {
        return; // it ends with the deadline that it has
    }
}

Task<Result<>> Connection::run() {
    for (;;) {
        switch (parse_head()) {
        case codec::http::Progress::failed:
            phase_ = Phase::head;
            if (begins_http2()) {
                http2_ = std::make_unique<Http2Connection>(*this);
                co_return co_await http2_->serve();
            }
            co_return co_await refuse(Status(codec::http::status_for(parser_.error())));
        case codec::http::Progress::incomplete: {
            if (!flush_at_once()) {
                if (const Result<> flushed = co_await flush(); !flushed) {
                    co_return flushed;
                }
            }
            if (server_.accept_loop.stopping() && head_text_.empty()) {
                co_return Result<>();
            }
            if (head_text_.empty()) {
                phase_ = Phase::idle;
                release_memory();
                server_.accept_loop.list(*this,
                                         set_reading_deadline(server_.options.timeouts.idle));
            } else if (phase_ != Phase::head) { // the time begins with the head, not with each part
                phase_ = Phase::head;
                set_reading_deadline(server_.options.timeouts.head);
            }
            const Result<> filled = co_await fill();
            server_.accept_loop.unlist(*this);
            if (!filled) { // also when the client has closed, which ends every connection
                co_return filled.error() == Error::truncated ? Result<>() : filled;
            }
            continue;
        }
        case codec::http::Progress::complete:
            break;
        }
        begin_request();
        Result<> handled;
        std::exception_ptr thrown;
        if (const Handler* handler = choose_handler()) {
            if (handler->upgrade) {
                co_return co_await take_over(*handler);
            }
            try {
                if (handler->function) {
                    handled = handler->function(request_, response_);
                } else {
                    // What is due to the client must not wait for a handler that waits.
                    if (!flush_at_once()) {
                        handled = co_await flush();
                    }
                    if (handled) {
                        handled = co_await run_handler(*handler);
                    }
                }
            } catch (...) {
                thrown = std::current_exception();
            }
        }
        if (framing_ == Framing::undecided && handled && !thrown && !body_is_unread() &&
            body_text_.size() <= small_body && keep_alive_) { // the usual case, without a task
            append_whole_response();
            count_response();
        } else {
            const Result<> finished = co_await finish(handled, std::move(thrown));
            if (finished) {
                count_response();
            }
            if (!finished || !keep_alive_) {
                co_return finished;
            }
        }
        if (!keep_alive_) {
            linger_ = true;
            co_return co_await flush();
        }
        if (out_.size() > part_size) {
            if (const Result<> flushed = co_await flush(); !flushed) {
                co_return flushed;
            }
        }
        head_text_.clear();
        // A chunk holds thousands of pipelined requests, which a function answers without an
        // operation. Whether the task is cancelled, the next operation tells.
        if (!rest_.empty()) {
            (void)co_await penstock::detail::BudgetOperation();
        }
    }
}

/// Whether what is not a head of HTTP/1.1 is the preface of HTTP/2, or its beginning (RFC 9113,
/// section 3.4). It is looked at only here, so that HTTP/1.1 does not pay for it.
bool Connection::begins_http2() const noexcept {
    if (!server_.options.http2 || requests_ > 0) {
        return false;
    }
    const std::string_view begin = head_text_.empty() ? rest_ : std::string_view(head_text_);
    constexpr std::string_view preface = codec::http2::client_preface;
    return begin.substr(0, preface.size()) == preface.substr(0, begin.size());
}

codec::http::Progress Connection::parse_head() {
    using codec::http::Progress;
    if (rest_.empty()) {
        return Progress::incomplete;
    }
    if (head_text_.empty()) {
        const Progress progress = parser_.parse(rest_);
        if (progress == Progress::complete) {
            const std::string_view text = rest_.substr(0, parser_.head().size);
            head_text_.assign(text);
            adopt_head(text, text.size());
        } else if (progress == Progress::incomplete) {
            head_text_.assign(rest_);
            rest_ = {};
        }
        return progress;
    }
    const std::size_t before = head_text_.size();
    head_text_.append(rest_);
    const Progress progress = parser_.parse(head_text_);
    if (progress == Progress::complete) {
        const std::size_t size = parser_.head().size;
        head_text_.resize(size); // does not move the text
        adopt_head(head_text_, size - before);
    } else if (progress == Progress::incomplete) {
        rest_ = {};
    }
    return progress;
}

/// Rebases the parsed head's views, which are of `text`, onto `head_text_`. The first `shared`
/// bytes of `rest_` belong to that head.
void Connection::adopt_head(std::string_view text, std::size_t shared) {
    const auto moved = [&](std::string_view view) -> std::string_view {
        return view.empty()
                   ? std::string_view()
                   : std::string_view(head_text_.data() + (view.data() - text.data()), view.size());
    };
    head_ = parser_.head();
    fields_.clear();
    for (const Field& field : head_.fields) {
        fields_.push_back({.name = moved(field.name), .value = moved(field.value)});
    }
    head_.fields = Fields(fields_);
    head_.method = moved(head_.method);
    head_.target = moved(head_.target);
    head_.host = moved(head_.host);
    rest_.remove_prefix(shared);
}

void Connection::begin_request() {
    phase_ = Phase::handling;
    ++requests_;
    clear_reading_deadline();
    if (rest_.empty()) {
        chunk_ = {}; // a handler that waits holds no buffer
    }
    target_ = codec::http::split_target(head_.target);
    body_.reset();
    if (head_.body.kind != codec::http::BodyFraming::Kind::none) {
        body_.emplace(head_.body, server_.codec_limits);
        trailer_text_.clear();
    }
    body_done_ = false;
    continue_due_ = head_.expect_continue && body_.has_value();
    begin_exchange();
}

Task<Result<>> Connection::run_handler(const Handler& handler) {
    HandlerRun running(request_, stream_.transport(), match_.route->options.when_client_goes,
                       server_.options.timeouts.half_closed, handler.task(request_, response_));
    handler_run_ = &running;
    struct Forget {
        HandlerRun*& pointer;
        explicit Forget(HandlerRun*& given) noexcept : pointer(given) {}
        ~Forget() { pointer = nullptr; }
        Forget(const Forget&) = delete;
        Forget& operator=(const Forget&) = delete;
    };
    const Forget forget(handler_run_);
    co_return co_await running;
}

Task<Result<>> Connection::take_over(const Handler& handler) {
    if (const Result<> flushed = co_await flush(); !flushed) {
        co_return flushed;
    }
    (void)peer(); // while the stream is here
    upgraded_ = true;
    co_return co_await run_upgrade(handler);
}

Result<net::Endpoint> Connection::peer() noexcept {
    if (!peer_ && !upgraded_) {
        const net::StreamSocket* const socket = stream_.transport();
        peer_ = socket != nullptr ? net::Endpoint::of_peer(socket->native_handle())
                                  : failure(std::errc::not_supported);
    }
    return peer_;
}

OpenConnection Connection::describe() {
    using State = OpenConnection::State;
    OpenConnection described{
        .peer = peer(), .since = since_, .requests = requests_, .state = State::idle};
    if (http2_) {
        http2_->describe(described);
    } else if (phase_ == Phase::handling) {
        described.state = upgraded_ ? State::upgraded : State::handling;
        described.request.append(head_.method).append(" ").append(head_.target);
    } else if (phase_ == Phase::head) {
        described.state = State::head;
    }
    return described;
}

std::unique_ptr<penstock::detail::Seat> Connection::leave() {
    if (accepted_.home == nullptr) {
        return nullptr;
    }
    auto seat = std::make_unique<UpgradedConnection>(
        *accepted_.home, std::move(*accepted_.place), server_,
        UpgradedConnection::Origin{.peer = peer(),
                                   .since = since_,
                                   .requests = requests_,
                                   .number = number_,
                                   .target = std::string(head_.target)});
    server_.open.remove(*this);
    left_ = true;
    return seat;
}

AnyStream Connection::take_stream() noexcept {
    AnyStream taken = std::exchange(stream_, AnyStream());
    socket_ = stream_.socket();
    return taken;
}

void Connection::use_surplus(std::size_t size) noexcept {
    rest_.remove_prefix(size);
    if (rest_.empty()) { // while the other protocol is spoken, no buffer is held
        received_ = {};
        chunk_ = {};
        room_.reset();
    }
}

/// After the handler: completes the response, and prepares for the next request.
Task<Result<>> Connection::finish(Result<> handled, std::exception_ptr thrown) {
    if (stream_error_) {
        // The handler has the same error, or has ignored it.
        if (thrown || (!handled && handled.error() != stream_error_)) {
            report(handled ? std::error_code() : handled.error(), thrown);
        }
        co_return failure(stream_error_);
    }
    // One that was cancelled may have made another error of it. One that was to finish has not.
    const bool ended_by_client =
        request_.client_gone() && match_.route->options.when_client_goes == WhenClientGoes::cancel;
    if (!handled && !thrown &&
        (handled.error() == std::errc::operation_canceled || ended_by_client)) {
        co_return handled;
    }
    if (thrown && request_.client_gone() && error_of(thrown) == std::errc::operation_canceled) {
        co_return failure(std::errc::operation_canceled);
    }
    if (thrown || !handled) {
        const std::error_code error = handled ? std::error_code() : handled.error();
        if (!answer_failure(error, thrown)) {
            co_return failure(error ? error : std::make_error_code(std::errc::io_error));
        }
    }
    if (body_error_) {
        keep_alive_ = false;
    }
    if (framing_ == Framing::undecided) {
        append_whole_response();
    } else if (framing_ == Framing::length && body_left_ > 0) {
        report(Error::wrong_length, nullptr);
        co_return failure(Error::wrong_length);
    } else if (framing_ == Framing::chunked) {
        out_ += codec::http::last_chunk;
    }
    if (!body_text_.empty()) { // too large to be copied
        const std::string body = take_body();
        const Result<> sent = co_await send(Bytes(out_), Bytes(body));
        out_.clear();
        if (!sent) {
            co_return sent;
        }
    }
    if (keep_alive_ && body_is_unread()) {
        if (const Result<> flushed = co_await flush(); !flushed) {
            co_return flushed;
        }
        keep_alive_ = (co_await discard_body()).has_value();
    }
    if (!keep_alive_) {
        linger_ = true;
        co_return co_await flush();
    }
    co_return Result<>();
}

/// What the body may have in all, so that the rest of it is discarded.
std::uint64_t Connection::most_to_discard() const noexcept {
    const std::uint64_t unread = server_.options.limits.unread_body;
    return unread < UINT64_MAX - body_size_ ? body_size_ + unread : UINT64_MAX;
}

Task<Result<>> Connection::discard_body() {
    const std::uint64_t limit = most_to_discard();
    body_limit_ = UINT64_MAX;
    for (;;) {
        const Result<Bytes> part = co_await receive_body(SIZE_MAX);
        if (!part) {
            co_return failure(part.error());
        }
        if (part->empty()) {
            co_return Result<>();
        }
        if (body_size_ > limit) {
            co_return failure(Error::body_too_large);
        }
    }
}

/// Answers and ends the connection, whose further bytes have no known meaning.
Task<Result<>> Connection::refuse(Status status) {
    if (phase_ != Phase::handling) { // of the request before
        head_ = {};
        match_.route = nullptr;
        forget_lasting_fields();
    }
    answer(status);
    keep_alive_ = false;
    linger_ = true;
    append_whole_response();
    begin_count();
    count_response();
    co_return co_await flush();
}

/// Ends the output, and waits until the client has read it and closes. If the socket were closed
/// with input in it, the kernel would reset the connection, and the client might lose the response.
Task<Result<>> Connection::linger() {
    if (const Result<> ended = co_await stream_.shutdown(); !ended) {
        co_return ended;
    }
    for (std::size_t dropped = 0; dropped < linger_size; dropped += rest_.size()) {
        if (const Result<> filled = co_await fill(); !filled) {
            co_return filled;
        }
    }
    co_return Result<>();
}

/// Receives into `rest_`, of which nothing is left. `Error::truncated` at the end of the stream.
Task<Result<>> Connection::fill() {
    received_ = rest_ = {};
    if (socket_ != nullptr) {
        chunk_ = {};
        Result<Chunk> chunk = co_await socket_->receive();
        if (!chunk) {
            co_return failure(chunk.error());
        }
        chunk_ = std::move(*chunk);
        received_ = text_of(Bytes(chunk_.data(), chunk_.size()));
    } else {
        if (!room_) {
            room_ = std::make_unique_for_overwrite<std::byte[]>(room_size);
        }
        const Result<std::size_t> count =
            co_await stream_.read(MutableBytes(room_.get(), room_size));
        if (!count) {
            co_return failure(count.error());
        }
        received_ = text_of(Bytes(room_.get(), *count));
    }
    rest_ = received_;
    if (rest_.empty()) {
        co_return failure(Error::truncated);
    }
    co_return Result<>();
}

Task<Result<Bytes>> Connection::receive_body(std::size_t most) {
    using Kind = codec::http::BodyDecoder::Part::Kind;
    for (;;) {
        if (body_error_) {
            co_return failure(body_error_);
        }
        if (!body_ || body_done_) {
            co_return Bytes();
        }
        // Trailers that have arrived in part are collected.
        const bool collected = !trailer_text_.empty();
        std::string_view input =
            collected ? std::string_view(trailer_text_) : rest_.substr(0, most);
        const std::size_t held_back = collected ? 0 : rest_.size() - input.size();
        const codec::http::BodyDecoder::Part part = body_->next(input);
        const std::size_t left = input.size() + held_back;
        rest_ = collected ? received_.substr(received_.size() - std::min(left, received_.size()))
                          : rest_.substr(rest_.size() - left);
        switch (part.kind) {
        case Kind::data:
            body_size_ += part.data.size();
            if (body_size_ > body_limit_) {
                body_error_ = Error::body_too_large;
                continue;
            }
            (void)co_await penstock::detail::BudgetOperation(); // a chunk holds thousands of parts
            co_return Bytes(part.data);
        case Kind::end:
            body_done_ = true;
            if (handler_run_ != nullptr) { // while it read, nobody else was told of the end
                handler_run_->watch();
            }
            co_return Bytes();
        case Kind::failed:
            body_error_ = body_->error();
            continue;
        case Kind::incomplete:
            break;
        }
        if (held_back > 0) {
            most = input.empty() ? most : SIZE_MAX; // trailers must be seen whole
            continue;
        }
        if (!collected && !rest_.empty()) {
            trailer_text_.assign(rest_);
        }
        if (std::exchange(continue_due_, false) && !response_started()) {
            const auto continuing = continuing_.try_lock();
            out_ += "HTTP/1.1 100 Continue\r\n\r\n";
            if (const Result<> flushed = co_await flush(); !flushed) {
                co_return failure(flushed.error());
            }
        }
        const io::MonotonicTime begin = io::monotonic_now();
        set_body_deadline();
        const Result<> filled = co_await fill();
        if (!filled) {
            if (filled.error() == std::errc::operation_canceled) {
                co_return failure(filled.error());
            }
            body_error_ = stream_error_ = filled.error();
            continue;
        }
        clear_reading_deadline();
        if (handler_run_ != nullptr) {
            handler_run_->has_read();
        }
        body_waited_ += std::chrono::nanoseconds(io::monotonic_now() - begin);
        if (!trailer_text_.empty()) {
            trailer_text_.append(rest_);
        }
    }
}

/// A connection that is closed after a part of a response: the client must not take it for the end.
/// One that was too slow ends as any other where the framing tells that a part is missing: what the
/// kernel has accepted still arrives, and a reset would destroy it.
void Connection::abort_on_close() noexcept {
    const bool too_slow = stream_error_ == std::errc::timed_out;
    if (socket_ != nullptr && (!too_slow || framing_ == Framing::until_close)) {
        const struct linger reset{.l_onoff = 1, .l_linger = 0};
        (void)::setsockopt(socket_->native_handle(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    }
}

/// Before it waits for the next request.
void Connection::release_memory() noexcept {
    for (std::string* text : {&head_text_, &out_, &body_text_, &trailer_text_}) {
        if (text->capacity() > kept_memory) {
            std::string().swap(*text); // a move keeps the memory of what is short
        }
    }
}

io::MonotonicTime Connection::set_reading_deadline(std::chrono::milliseconds limit) {
    const io::MonotonicTime now = io::monotonic_now();
    reading_until_ = penstock::detail::deadline_after(time_limit(limit), now);
    apply_deadlines();
    return now;
}

/// For the next part of a request's body: what is left of the time that all of it may take.
void Connection::set_body_deadline() {
    reading_until_ = penstock::detail::deadline_after(body_time_left());
    apply_deadlines();
}

/// A socket does it at a time, and by progress. The limit holds for what takes the stream over,
/// too. Other streams get a deadline for each part.
void Connection::limit_writes() noexcept {
    if (net::StreamSocket* const transport = stream_.transport()) {
        limits_itself_ = true;
        transport->limit_writes({.time = server_.options.timeouts.write,
                                 .rate = server_.options.timeouts.write_rate,
                                 .maximum_backlog = server_.options.limits.maximum_backlog});
    }
}

void Connection::set_writing_deadline() {
    if (!limits_itself_) {
        writing_until_ =
            penstock::detail::deadline_after(time_limit(server_.options.timeouts.write));
        apply_deadlines();
    }
}

void Connection::clear_reading_deadline() {
    reading_until_ = never;
    apply_deadlines();
}

void Connection::clear_writing_deadline() {
    if (!limits_itself_) {
        writing_until_ = never;
        apply_deadlines();
    }
}

void Connection::apply_deadlines() {
    if (deadline_ != nullptr) {
        deadline_->expire_at(std::chrono::steady_clock::time_point(
            std::chrono::nanoseconds(std::min(reading_until_, writing_until_))));
    }
}

} // namespace penstock::http::detail
