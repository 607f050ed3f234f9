#include "ws/conversation.hpp"

#include <new>
#include <utility>

#include <penstock/detail/task/transfer.hpp>
#include <penstock/ws/errors.hpp>

namespace penstock::ws::detail {

namespace {

/// Closes a connection whose handler has ended: with code 1000, or 1011 if it has thrown, or
/// returned another error than the end of the connection. Returns that error.
Task<Result<>> end_conversation(WebSocket& socket, Result<> served, bool thrown) {
    const auto ended_by_peer = [&](std::error_code error) {
        const bool answers_no_ping =
            error == std::errc::timed_out && socket.close_code() == close_code::abnormal;
        return answers_no_ping || is_end_of_connection(error);
    };
    if (!served && ended_by_peer(served.error())) {
        served = Result<>();
    }
    const bool normal = !thrown && served;
    // Whether the peer answers says nothing about the conversation.
    (void)co_await socket.close(normal ? close_code::normal : close_code::internal_error);
    co_return served;
}

} // namespace

bool is_end_of_connection(std::error_code error) noexcept {
    return error == Error::closed || error == Error::truncated ||
           error == std::errc::connection_reset || error == std::errc::broken_pipe ||
           error == std::errc::operation_canceled;
}

/// For a task that may outlive the conversation.
class Conversation::Keeper {
public:
    explicit Keeper(Conversation& conversation) noexcept : conversation_(&conversation) {
        ++conversation.keepers_;
    }
    Keeper(Keeper&& other) noexcept : conversation_(std::exchange(other.conversation_, nullptr)) {}
    Keeper& operator=(Keeper&&) = delete;
    ~Keeper() {
        if (conversation_ != nullptr && --conversation_->keepers_ == 0 && !conversation_->seat_) {
            delete conversation_;
        }
    }

    [[nodiscard]] WebSocket& socket() const noexcept { return conversation_->socket_; }

private:
    Conversation* conversation_;
};

Conversation::Conversation(std::unique_ptr<penstock::detail::Seat> seat, WebSocket&& accepted,
                           const Handler& handler) noexcept
    : EmbeddedTask(*seat->home().scope, &coroutine_ended, &start), seat_(std::move(seat)),
      handler_(&handler), socket_(std::move(accepted)) {}

void Conversation::begin(std::unique_ptr<penstock::detail::Seat> seat, WebSocket&& accepted,
                         const Handler& handler) {
    auto* const conversation = new Conversation(std::move(seat), std::move(accepted), handler);
    conversation->seat_->loop().keep(*conversation);
    conversation->spawn();
}

void Conversation::start(io::Work& work) {
    auto& self = static_cast<Conversation&>(work);
    self.begin_task();
    std::coroutine_handle<> first;
    try {
        self.task_.emplace((*self.handler_)(self.socket_));
        first = self.run_in_task(self.task_->coroutine());
    } catch (...) {
        self.thrown_ = std::current_exception();
        first = self.say_goodbye({});
    }
    penstock::detail::resume(first);
}

std::coroutine_handle<> Conversation::coroutine_ended(Completion& completion) noexcept {
    auto& self = static_cast<Conversation&>(completion);
    Result<> served;
    {
        // NOLINTNEXTLINE(bugprone-unchecked-optional-access): what has ended was there
        const Task<Result<>> ended = std::move(*self.task_);
        auto& promise = ended.coroutine().promise();
        if (!promise.exception()) {
            served = promise.value();
        } else if (!self.thrown_) {
            self.thrown_ = promise.exception();
        }
    } // the frame is freed here
    self.task_.reset();
    return self.says_goodbye_ ? self.finish(served) : self.say_goodbye(served);
}

std::coroutine_handle<> Conversation::say_goodbye(Result<> served) noexcept {
    says_goodbye_ = true;
    try {
        task_.emplace(end_conversation(socket_, served, thrown_ != nullptr));
    } catch (const std::bad_alloc&) { // the peer gets no close frame
        thrown_ = thrown_ ? thrown_ : std::current_exception();
        return finish(served);
    }
    return run_in_task(task_->coroutine());
}

std::coroutine_handle<> Conversation::finish(Result<> served) noexcept {
    seat_->loop().unlist(*this);
    if (thrown_ || !served) {
        seat_->report(served ? std::error_code() : served.error(), thrown_);
    }
    const std::coroutine_handle<> next = end_task();
    if (keepers_ == 0) {
        delete this;
    } else {
        seat_.reset();
    }
    return next;
}

Task<void> Conversation::close_one(Keeper keeper) {
    (void)co_await keeper.socket().begin_close(close_code::going_away, stop_reason);
}

void Conversation::end() noexcept {
    try {
        seat_->home().scope->spawn(close_one(Keeper(*this)));
    } catch (const std::bad_alloc&) {
        return; // its handler is cancelled after the grace
    }
}

} // namespace penstock::ws::detail
