#pragma once

// How `BasicWebSocket` sends and closes. Included by web_socket.hpp after the class.
// It includes that header for readers and tools that open this file alone.

// NOLINTNEXTLINE(misc-header-include-cycle)
#include <penstock/ws/web_socket.hpp>

namespace penstock::ws {

template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::send_message(Opcode opcode, Bytes payload) {
    Connection& connection = *connection_;
    const Result<Turn> message = co_await connection.messages.lock();
    if (!message) {
        co_return failure(message.error()); // nothing was sent
    }
    Turn turn = connection.frames.try_lock();
    Socket* const target = socket();
    if (!turn || target == nullptr || connection.has_pending()) {
        turn.unlock();
        co_return co_await send_fragment(opcode, payload, {});
    }
    if (const std::error_code refused = connection.refusal()) {
        co_return failure(refused);
    }
    Result<> sent;
    if (const Bytes whole = connection.frame_in_place(opcode, payload); !whole.empty()) {
        detail::FrameWrite writing(connection);
        sent = writing.end(co_await target->write_all(whole));
    } else {
        sent = co_await write(connection.frame_of(opcode, payload, {}));
    }
    if (sent && connection.has_pending()) {
        sent = co_await write_pending();
    }
    co_return sent;
}

/// Writes the rest of a message that a `Send` has begun to write. Nothing else has run since, so
/// the turns to send are free.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::finish_send(Bytes rest) {
    Connection& connection = *connection_;
    const Turn message = connection.messages.try_lock();
    const Turn turn = connection.frames.try_lock();
    detail::FrameWrite writing(connection);
    Result<> sent = writing.end(co_await socket()->write_all(rest));
    if (sent && connection.has_pending()) {
        sent = co_await write_pending();
    }
    co_return sent;
}

/// The same with the frame, whose first `written` bytes were written.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::finish_send(detail::OutgoingFrame frame, std::size_t written) {
    Connection& connection = *connection_;
    const Turn message = connection.messages.try_lock();
    const Turn turn = connection.frames.try_lock();
    detail::FrameWrite writing(connection);
    const Bytes head = frame.head().subspan(std::min(written, frame.head().size()));
    const Bytes body = frame.body().subspan(written - std::min(written, frame.head().size()));
    Result<> sent = writing.end(co_await socket()->write_all(head, body));
    if (sent && connection.has_pending()) {
        sent = co_await write_pending();
    }
    co_return sent;
}

template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<typename BasicWebSocket<S>::Writer>> BasicWebSocket<S>::begin(Opcode opcode) {
    Result<Turn> turn = co_await connection_->messages.lock();
    if (!turn) {
        co_return failure(turn.error());
    }
    if (const std::error_code refused = connection_->refusal()) {
        co_return failure(refused);
    }
    co_return Writer(*this, std::move(*turn), opcode);
}

/// The caller must hold the `messages` lock.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::send_fragment(Opcode opcode, Bytes payload,
                                                Connection::Fragment fragment) {
    Connection& connection = *connection_;
    const Result<Turn> turn = co_await connection.frames.lock();
    if (!turn) {
        co_return failure(turn.error());
    }
    Result<> sent;
    if (const std::error_code refused = connection.refusal()) {
        sent = failure(refused);
    } else {
        sent = co_await write(connection.frame_of(opcode, payload, fragment));
    }
    if (const Result<> pending = co_await write_pending(); sent && !pending) {
        sent = pending;
    }
    co_return sent;
}

template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::send(SharedMessage message) {
    Connection& connection = *connection_;
    if (connection.role == Role::client) { // which masks each frame with a key of its own
        co_return co_await send_message(message.is_text() ? Opcode::text : Opcode::binary,
                                        message.payload());
    }
    const Result<Turn> whole = co_await connection.messages.lock();
    if (!whole) {
        co_return failure(whole.error());
    }
    const Result<Turn> turn = co_await connection.frames.lock();
    if (!turn) {
        co_return failure(turn.error());
    }
    Result<> sent;
    if (const std::error_code refused = connection.refusal()) {
        sent = failure(refused);
    } else {
        sent = co_await write_frame(connection.frame_of(message));
    }
    if (const Result<> pending = co_await write_pending(); sent && !pending) {
        sent = pending;
    }
    co_return sent;
}

/// The caller must hold the `frames` lock.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::write_frame(Bytes frame) {
    detail::FrameWrite writing(*connection_);
    if (Socket* target = socket()) {
        co_return writing.end(co_await target->write_all(frame));
    }
    if (penstock::detail::transport_of(stream_) == nullptr) {
        co_return writing.end(co_await write_in_parts(frame, {}));
    }
    co_return writing.end(co_await stream_.write_all(frame));
}

/// The caller must hold the `frames` lock.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::write(detail::OutgoingFrame frame) {
    bool has_piece = frame.next(); // without memory for the first one, nothing was sent
    detail::FrameWrite writing(*connection_);
    Result<> written;
    while (written && has_piece) {
        if (Socket* target = socket()) {
            if (frame.body().empty()) {
                written = co_await target->write_all(frame.head());
            } else {
                written = co_await target->write_all(frame.head(), frame.body());
            }
        } else if (penstock::detail::transport_of(stream_) == nullptr) {
            written = co_await write_in_parts(frame.head(), frame.body());
        } else if (frame.body().empty()) {
            written = co_await stream_.write_all(frame.head());
        } else if constexpr (requires { stream_.write_all(frame.head(), frame.body()); }) {
            written = co_await stream_.write_all(frame.head(), frame.body());
        } else {
            written = co_await stream_.write_all(frame.head());
            if (written) {
                written = co_await stream_.write_all(frame.body());
            }
        }
        has_piece = written && frame.next();
    }
    connection_->release_output();
    co_return writing.end(written);
}

/// To a stream that shows no socket. What the peer takes cannot be seen, so each part has the whole
/// time.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::write_in_parts(Bytes head, Bytes body) {
    constexpr std::size_t most = std::size_t{64} * 1024;
    const auto limit = penstock::detail::time_limit(connection_->write_time);
    for (Bytes left : {head, body}) {
        while (!left.empty()) {
            const Bytes part(left.data(), std::min(left.size(), most));
            left = Bytes(left.data() + part.size(), left.size() - part.size());
            if (const Result<> written = co_await timeout(limit, stream_.write_all(part));
                !written) {
                co_return written;
            }
        }
    }
    co_return Result<>();
}

/// The caller must hold the `frames` lock. `receives`: it is the receiver, whose input is not in
/// use. A peer that reads nothing is to cost no borrowed buffer while this waits: neither that of
/// the input nor that of the frame.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::write_control(Opcode opcode,
                                                const detail::PendingControl& control,
                                                bool receives) {
    const Bytes payload(control.bytes.data(), control.size);
    Socket* const target = socket();
    if (target == nullptr) {
        co_return co_await write(connection_->control_frame(opcode, payload));
    }
    std::array<std::byte, detail::PendingControl::frame_size> left; // NOLINT(*-member-init)
    std::size_t size = 0;
    {
        detail::OutgoingFrame frame = connection_->control_frame(opcode, payload);
        (void)frame.next();
        const std::size_t sent = target->try_write(frame.head()).value_or(0);
        size = frame.head().size() - sent;
        std::ranges::copy(frame.head().subspan(sent), left.begin());
    }
    if (size == 0) {
        co_return Result<>();
    }
    if (receives) {
        connection_->park_input();
    }
    detail::FrameWrite writing(*connection_);
    co_return writing.end(co_await target->write_all(Bytes(left.data(), size)));
}

/// The caller must hold the `frames` lock. `receives` is that of `write_control`.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::write_pending(bool receives) {
    Connection& connection = *connection_;
    while (connection.has_pending()) {
        detail::PendingControls& controls = connection.controls();
        detail::PendingControl taken; // the receiver may assign the next one meanwhile
        Opcode opcode = Opcode::ping;
        if (controls.pong.waiting) {
            opcode = Opcode::pong;
            taken = std::exchange(controls.pong, {});
        } else if (controls.ping) {
            controls.ping = false;
        } else {
            opcode = Opcode::close;
            taken = std::exchange(controls.close, {});
            connection.close_sent = true;
        }
        if (const Result<> sent = co_await write_control(opcode, taken, receives); !sent) {
            co_return sent;
        }
    }
    connection.release_controls();
    co_return Result<>();
}

/// Only the receiver calls this. While it sends, it hears nothing of the peer, so the peer's time
/// to answer a ping limits how long the send may be without progress.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::send_pending() {
    Connection& connection = *connection_;
    if (connection.frames.locked()) {
        co_return Result<>(); // the task that holds the lock sends them
    }
    // Unlike `try_lock` this fails before anything is sent if the task is cancelled.
    const Result<Turn> turn = co_await connection.frames.lock();
    if (!turn) {
        co_return failure(turn.error());
    }
    const WriteTime time(*this, control_time());
    co_return co_await write_pending(true);
}

/// How long the receiver may wait to send a control frame.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
std::chrono::milliseconds BasicWebSocket<S>::control_time() const noexcept {
    const Limits& limits = *connection_->limits;
    const bool shorter =
        limits.ping_interval.count() > 0 && limits.ping_timeout.count() > 0 &&
        limits.ping_timeout < penstock::detail::time_limit(connection_->write_time);
    return shorter ? limits.ping_timeout : connection_->write_time;
}

/// Sends a close frame unless one was sent.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<void> BasicWebSocket<S>::answer_close(std::uint16_t code, std::string_view reason) {
    if (!connection_->refusal()) {
        connection_->controls().close.assign(codec::websocket::ClosePayload(code, reason).bytes());
        // A peer that cannot be reached any more is closed all the same.
        (void)co_await penstock::detail::run_until_deadline(connection_->close_deadline(),
                                                            send_pending());
    }
    co_await end_stream();
}

template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::close_and_wait(std::uint16_t code, std::string_view reason) {
    Connection& connection = *connection_;
    if (!connection.end) {
        const codec::websocket::ClosePayload payload(code, reason);
        const Result<> sent = co_await send_close(Bytes(payload.bytes()));
        if (!sent && sent.error() != Error::closed) {
            co_return sent;
        }
    }
    if (connection.receiving) {
        co_return Result<>();
    }
    if (connection.end && connection.write_broken) {
        co_return failure(Error::broken); // the peer got no close frame, so nothing is worth a wait
    }
    if (connection.end && connection.end != Error::closed && connection.end != Error::truncated) {
        const Receiving receiving(connection.receiving); // the input is in use
        Result<> fed;
        while (fed) {
            fed = co_await feed(false);
        }
        connection.release_input();
        co_return connection.end == Error::truncated ? Result<>() : fed;
    }
    const bool by_parts = connection.inside_parts();
    for (;;) {
        std::error_code end;
        if (by_parts) {
            const Result<MessagePart> part = co_await receive_part();
            if (part) { // this may be cut short, and a message with a hole must not be returned
                connection.drops_message = !part->last;
            } else {
                end = part.error();
            }
        } else {
            const Result<Message> message = co_await receive();
            end = message ? std::error_code() : message.error();
        }
        if (end) {
            co_return end == Error::closed ? Result<>() : failure(end);
        }
    }
}

template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::send_close(Bytes payload) {
    Connection& connection = *connection_;
    const Result<Turn> turn = co_await connection.frames.lock();
    if (!turn) {
        co_return failure(turn.error());
    }
    if (const std::error_code refused = connection.refusal()) {
        (void)co_await write_pending();
        co_return failure(refused);
    }
    connection.controls().close.assign(payload);
    co_return co_await write_pending();
}

/// The server ends the connection below (RFC 6455, section 7.1.1).
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<void> BasicWebSocket<S>::end_stream() {
    if (connection_->role != Role::server || !connection_->close_sent) {
        co_return;
    }
    co_await shut_down();
}

/// Ends the output of the stream below: over TLS with the end of the encrypted stream, without
/// which the peer must take what it has read for cut off.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<void> BasicWebSocket<S>::shut_down() {
    if constexpr (HalfClosable<Lower>) {
        (void)stream_.shutdown();
    } else if constexpr (requires { requires Awaitable<decltype(stream_.shutdown())>; }) {
        (void)co_await penstock::detail::run_until_deadline(
            connection_->close_deadline(), penstock::detail::to_task(stream_.shutdown()));
    }
}

} // namespace penstock::ws
