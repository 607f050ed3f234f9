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
        sent = co_await target->write_all(whole);
        if (!sent) {
            connection.write_broken = true;
        }
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
Task<Result<>> BasicWebSocket<S>::finish_send(SocketWrite& write) {
    Connection& connection = *connection_;
    const Turn message = connection.messages.try_lock();
    const Turn turn = connection.frames.try_lock();
    Result<> sent = co_await write;
    if (!sent) {
        connection.write_broken = true;
    } else if (connection.has_pending()) {
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

/// For who has the turn to send messages.
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

/// For who has the turn to send frames.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::write(detail::OutgoingFrame frame) {
    Result<> written;
    while (written && frame.next()) {
        if (Socket* target = socket()) {
            if (frame.body().empty()) {
                written = co_await target->write_all(frame.head());
            } else {
                written = co_await target->write_all(frame.head(), frame.body());
            }
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
    }
    if (!written) {
        connection_->write_broken = true;
    }
    co_return written;
}

/// For who has the turn to send frames.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::write_pending() {
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
        const Result<> sent =
            co_await write(connection.control_frame(opcode, Bytes(taken.bytes.data(), taken.size)));
        if (!sent) {
            co_return sent;
        }
    }
    co_return Result<>();
}

/// For the receiver.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::send_pending() {
    if (connection_->frames.locked()) {
        co_return Result<>(); // who has the turn sends them
    }
    // Unlike `try_lock` this fails before anything is sent if the task is cancelled.
    const Result<Turn> turn = co_await connection_->frames.lock();
    co_return turn ? co_await write_pending() : Result<>(failure(turn.error()));
}

/// Sends a close frame unless one was sent.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<void> BasicWebSocket<S>::answer_close(std::uint16_t code, std::string_view reason) {
    if (!connection_->refusal()) {
        connection_->controls().close.assign(codec::websocket::ClosePayload(code, reason).bytes());
        // A peer that cannot be reached any more is closed all the same.
        (void)co_await timeout(connection_->limits.close, send_pending());
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
    if (connection.end && connection.end != Error::closed && connection.end != Error::truncated) {
        const Receiving receiving(connection.receiving); // the input is in use
        Result<> fed;
        while (fed) {
            fed = co_await feed(false);
        }
        connection.release_input();
        co_return connection.end == Error::truncated ? Result<>() : fed;
    }
    const bool by_parts = connection.decoder.inside_parts();
    for (;;) {
        std::error_code end;
        if (by_parts) {
            const Result<MessagePart> part = co_await receive_part();
            end = part ? std::error_code() : part.error();
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
    if constexpr (HalfClosable<Lower>) {
        (void)stream_.shutdown();
    } else if constexpr (requires { requires Awaitable<decltype(stream_.shutdown())>; }) {
        (void)co_await timeout(connection_->limits.close, stream_.shutdown());
    }
}

} // namespace penstock::ws
