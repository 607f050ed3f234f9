#pragma once

// The operations of `BasicWebSocket` that need no coroutine of their own in the common case.
// Included by web_socket.hpp after the class.
// It includes that header for readers and tools that open this file alone.

// NOLINTNEXTLINE(misc-header-include-cycle)
#include <penstock/ws/web_socket.hpp>

namespace penstock::ws {

/// What `receive` returns. Its result is a `Result<Message>`.
///
/// A message that is one frame, whole in one read of a socket or behind another one in the same
/// read, is decoded before the waiting coroutine resumes. A server that waits answers pings, drops
/// pongs and pings a silent client by the way, so that a quiet connection has no task but the
/// handler's. For everything else (fragments, compression, close frames, a client that does not
/// answer, other streams) the operation continues in a task.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
class [[nodiscard]] BasicWebSocket<S>::Receive final
    : public detail::ToldInput<typename BasicWebSocket<S>::SocketReceive,
                               typename BasicWebSocket<S>::Receive> {
    using Input = detail::ToldInput<SocketReceive, Receive>;

public:
    /// Only before it is awaited.
    Receive(Receive&& other) noexcept
        : Input(static_cast<Input&&>(other)), socket_(other.socket_) {}
    Receive(const Receive&) = delete;
    Receive& operator=(const Receive&) = delete;
    Receive& operator=(Receive&&) = delete;
    ~Receive() { release(); }

    /// A task that awaits it.
    operator Task<Result<Message>>() && { return penstock::detail::to_task(std::move(*this)); }

    /// Claims the role of the receiver before anything else may run: a `close` that ran while this
    /// waits for its turn would take the role, and drop what this is to return.
    [[nodiscard]] bool await_ready() {
        if (Connection& connection = *socket_->connection_; !connection.receiving) {
            connection.receiving = true;
            receiving_ = &connection;
        }
        if (!this->context().loop().consume_budget()) {
            step_ = Step::later;
            return false;
        }
        return begin();
    }

    /// Throws `std::bad_alloc`.
    template <std::derived_from<penstock::detail::PromiseBase> Promise>
    [[nodiscard]] std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> task) {
        if (step_ != Step::waiting) {
            if (!rest_) {
                rest_.emplace(step_ == Step::later ? socket_->receive_later(*this)
                                                   : socket_->receive_rest(first_));
            }
            rest_->coroutine().promise().set_continuation(task, task.promise());
            return penstock::detail::transfer(rest_->coroutine());
        }
        suspended_ = true;
        if (Input::await_suspend(task)) {
            return std::noop_coroutine();
        }
        return penstock::detail::transfer(task);
    }

    [[nodiscard]] Result<Message> await_resume() {
        release();
        if (rest_) {
            return rest_->coroutine().promise().take();
        }
        if (step_ == Step::waiting) { // it was cancelled, or could not wait
            return failure(Input::await_resume().error());
        }
        return result_;
    }

private:
    friend class BasicWebSocket;
    template <typename, typename> friend class detail::ToldInput;

    enum class Step : std::uint8_t {
        later,   ///< the budget is used up, so all of it is done in the next iteration
        waiting, ///< for input
        in_task, ///< what follows needs a task
        done,    ///< there is a result
    };

    explicit Receive(BasicWebSocket& socket) noexcept : socket_(&socket) {}

    [[nodiscard]] bool begin() {
        Connection& connection = *socket_->connection_;
        if (receiving_ == nullptr) {
            return complete(failure(connection.error_of_second_receiver()));
        }
        if (connection.inside_parts()) {
            return complete(failure(std::errc::operation_in_progress));
        }
        if (!connection.inside_whole()) {
            connection.expect_whole();
        }
        if (connection.end) {
            connection.release_input();
            return complete(failure(connection.end));
        }
        if (take_message()) {
            return true;
        }
        if (connection.holds_input() && !takes_controls()) {
            step_ = step_ == Step::done ? step_ : Step::in_task;
            return step_ == Step::done;
        }
        Socket* const source = socket_->socket();
        if (source == nullptr) {
            step_ = Step::in_task;
            return false;
        }
        connection.release_input();
        connection.release_decoder();
        this->wait_for(source->receive(), socket_->patience());
        step_ = Step::waiting;
        return Input::await_ready() && step_ != Step::in_task;
    }

    bool complete(Result<Message> result) noexcept {
        result_ = result;
        step_ = Step::done;
        return true;
    }

    [[nodiscard]] bool take_message() {
        Connection& connection = *socket_->connection_;
        const Event event = connection.take_whole();
        if (event.kind == codec::websocket::MessageDecoder::Kind::incomplete) {
            return false;
        }
        connection.deliver(event.payload);
        return complete(message_of(event));
    }

    /// Answers pings and drops pongs, as many as the input begins with. True: that was all of it.
    /// A message behind them is taken, which completes this. Throws `std::bad_alloc`.
    [[nodiscard]] bool takes_controls() {
        constexpr int most = 16; // without letting other tasks run
        Connection& connection = *socket_->connection_;
        for (int count = 0; count < most && connection.begins_with_ping_or_pong(); ++count) {
            const Event event = connection.decoder().next(connection.rest);
            if (event.kind == codec::websocket::MessageDecoder::Kind::ping &&
                !sends_at_once(Opcode::pong, event.payload)) {
                if (!rest_) {
                    connection.controls().pong.assign(event.payload);
                    first_ = Rest::controls;
                }
                return false;
            }
            if (!connection.holds_input()) {
                return true;
            }
            if (take_message()) {
                return false;
            }
        }
        return false;
    }

    /// Whether a socket has taken the whole of a ping or pong. If it has taken a part, `rest_` goes
    /// on with the rest. Throws `std::bad_alloc`.
    [[nodiscard]] bool sends_at_once(Opcode opcode, Bytes payload) {
        Connection& connection = *socket_->connection_;
        Socket* const target = socket_->socket();
        Turn turn = connection.frames.try_lock();
        if (!turn || target == nullptr || connection.has_pending() || connection.refusal()) {
            return false;
        }
        detail::OutgoingFrame frame = connection.control_frame(opcode, payload);
        (void)frame.next();
        const std::size_t written = target->try_write(frame.head()).value_or(0);
        if (written == frame.head().size()) {
            return true;
        }
        if (written > 0) {
            // Without memory for the task, a part of the frame may be all that is ever sent.
            connection.write_broken = true;
            rest_.emplace(socket_->receive_behind(
                detail::PartOfControl(frame.head().subspan(written)), std::move(turn)));
            connection.write_broken = false;
        }
        return false;
    }

    /// Returns whether this does not wait on.
    [[nodiscard]] bool input_ended() noexcept {
        try {
            if (const Result<> taken = socket_->take(Input::await_resume()); !taken) {
                return complete(failure(taken.error()));
            }
            if (take_message()) {
                return true;
            }
            if (takes_controls()) {
                socket_->connection_->release_decoder();
                socket_->connection_->release_input();
                if (!suspended_) {
                    this->set_patience(socket_->patience());
                    return false;
                }
                return !this->wait_again(socket_->patience()) &&
                       complete(failure(std::errc::not_enough_memory));
            }
            if (step_ != Step::done) {
                continue_in_task();
            }
        } catch (const std::bad_alloc&) { // what has arrived is kept for the next receive
            (void)complete(failure(std::errc::not_enough_memory));
        }
        return true;
    }

    /// Sends a ping if there is nothing else to do. The time for its answer begins.
    [[nodiscard]] bool bears_silence() noexcept {
        Connection& connection = *socket_->connection_;
        if (connection.role != Connection::Role::server || connection.waits_for_idle ||
            connection.pinged) {
            return false;
        }
        connection.pinged = true;
        try {
            if (this->wait_again(socket_->patience())) {
                if (sends_at_once(Opcode::ping, {})) {
                    return true;
                }
                this->stop();
            }
        } catch (const std::bad_alloc&) {
            this->stop();
        }
        // A ping of which a part was sent is no other one.
        connection.pinged = rest_.has_value();
        return false;
    }

    void input_is_silent() noexcept {
        first_ = Rest::silence;
        continue_in_task();
    }

    void continue_in_task() noexcept {
        step_ = Step::in_task;
        if (!suspended_) {
            return; // `await_suspend` follows
        }
        try {
            if (!rest_) {
                rest_.emplace(socket_->receive_rest(first_));
            }
            this->continue_in(*rest_);
        } catch (const std::bad_alloc&) {
            // What has arrived is kept for the next receive.
            (void)complete(failure(std::errc::not_enough_memory));
        }
    }

    void release() noexcept {
        if (receiving_ != nullptr) {
            std::exchange(receiving_, nullptr)->receiving = false;
        }
    }

    BasicWebSocket* socket_;
    Connection* receiving_ = nullptr; ///< whose receiver this is
    Result<Message> result_{};
    std::optional<Task<Result<Message>>> rest_{};
    Step step_ = Step::later;
    Rest first_ = Rest::input;
    bool suspended_ = false;
};

/// What `send`, `send_text` and `send_binary` return. Its result is a `Result<>`.
///
/// A message that need not be compressed is written to a socket at once, if nobody else sends. If
/// the socket does not take all of it, or in any other case, the operation continues in a task.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
class [[nodiscard]] BasicWebSocket<S>::Send final : public OperationBase {
public:
    /// Only before it is awaited.
    Send(Send&& other) noexcept
        : OperationBase(static_cast<OperationBase&&>(other)), socket_(other.socket_),
          payload_(other.payload_), opcode_(other.opcode_) {}
    Send(const Send&) = delete;
    Send& operator=(const Send&) = delete;
    Send& operator=(Send&&) = delete;
    ~Send() = default;

    /// A task that awaits it.
    operator Task<Result<>>() && { return penstock::detail::to_task(std::move(*this)); }

    /// Throws as `OutgoingFrame`, and `std::bad_alloc`.
    [[nodiscard]] bool await_ready() {
        Connection& connection = *socket_->connection_;
        Socket* const target = socket_->socket();
        if (target == nullptr || context().cancelled() || connection.compressor ||
            connection.messages.locked() || connection.frames.locked() ||
            connection.has_pending() || !context().loop().consume_budget()) {
            return false;
        }
        error_ = connection.refusal();
        return error_ || write(connection, *target);
    }

    /// Throws `std::bad_alloc`.
    template <std::derived_from<penstock::detail::PromiseBase> Promise>
    [[nodiscard]] std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> task) {
        if (!rest_) {
            rest_.emplace(socket_->send_message(opcode_, payload_));
        }
        rest_->coroutine().promise().set_continuation(task, task.promise());
        return penstock::detail::transfer(rest_->coroutine());
    }

    [[nodiscard]] Result<> await_resume() {
        if (rest_) {
            return rest_->coroutine().promise().take();
        }
        return error_ ? failure(error_) : Result<>();
    }

private:
    friend class BasicWebSocket;

    Send(BasicWebSocket& socket, Opcode opcode, Bytes payload) noexcept
        : OperationBase(nullptr), socket_(&socket), payload_(payload), opcode_(opcode) {}

    /// Whether the socket has taken the whole frame, or has failed. The frame is here and not in
    /// the operation, whose size is that of each coroutine that sends.
    [[nodiscard]] bool write(Connection& connection, Socket& target) {
        if (const Bytes whole = connection.frame_in_place(opcode_, payload_); !whole.empty()) {
            return wrote(target.try_write(whole), whole.size(), [&](std::size_t written) {
                return socket_->finish_send(whole.subspan(written));
            });
        }
        if (connection.role == Role::client &&
            payload_.size() > Chunk::capacity - codec::websocket::maximum_frame_header) {
            return false; // it takes several writes
        }
        detail::OutgoingFrame frame = connection.frame_of(opcode_, payload_, {});
        (void)frame.next();
        const std::array parts{frame.head(), frame.body()};
        return wrote(target.try_write(std::span(parts).first(frame.body().empty() ? 1 : 2)),
                     frame.head().size() + frame.body().size(), [&](std::size_t written) {
                         return socket_->finish_send(std::move(frame), written);
                     });
    }

    /// After a write of a frame of `size` bytes. `finish(written)` makes the task that writes the
    /// rest.
    [[nodiscard]] bool wrote(const Result<std::size_t>& written, std::size_t size, auto finish) {
        bool& broken = socket_->connection_->write_broken;
        if (!written) {
            broken = true;
            error_ = written.error();
            return true;
        }
        if (*written == size) {
            return true;
        }
        // Without memory for the task, a part of the frame may be all that is ever sent.
        broken = *written > 0;
        rest_.emplace(finish(*written));
        broken = false;
        return false;
    }

    BasicWebSocket* socket_;
    Bytes payload_;
    std::error_code error_{};
    std::optional<Task<Result<>>> rest_{};
    Opcode opcode_;
};

template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
typename BasicWebSocket<S>::Receive BasicWebSocket<S>::receive() noexcept {
    return Receive(*this);
}

template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
typename BasicWebSocket<S>::Send BasicWebSocket<S>::send_text(std::string_view text) noexcept {
    return Send(*this, Opcode::text, Bytes(text));
}

template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
typename BasicWebSocket<S>::Send BasicWebSocket<S>::send_binary(Bytes payload) noexcept {
    return Send(*this, Opcode::binary, payload);
}

template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
typename BasicWebSocket<S>::Send BasicWebSocket<S>::send(const Message& message) noexcept {
    return Send(*this, message.is_text() ? Opcode::text : Opcode::binary, Bytes(message.payload));
}

} // namespace penstock::ws
