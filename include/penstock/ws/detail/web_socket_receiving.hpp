#pragma once

// How `BasicWebSocket` receives. Included by web_socket.hpp after the class.
// It includes that header for readers and tools that open this file alone.

// NOLINTNEXTLINE(misc-header-include-cycle)
#include <penstock/ws/web_socket.hpp>

namespace penstock::ws {

/// All of a receive, for a task that must let other tasks run first. `caller` is the receiver
/// meanwhile.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<Message>> BasicWebSocket<S>::receive_later(Receive& caller) {
    co_await penstock::detail::BudgetOperation();
    caller.release();
    co_return co_await receive();
}

/// A receive that has sent a part of a ping or pong, under `turn`.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<Message>> BasicWebSocket<S>::receive_behind(detail::PartOfControl rest, Turn turn) {
    connection_->park_input();
    Result<> sent;
    {
        const WriteTime time(*this, control_time());
        detail::FrameWrite writing(*connection_);
        sent = writing.end(co_await socket()->write_all(Bytes(rest.bytes.data(), rest.size)));
    }
    if (sent) {
        sent = co_await write_pending(true);
    }
    turn.unlock();
    if (const Result<> judged = judge_control(sent); !judged) {
        co_return failure(judged.error());
    }
    co_return co_await receive_rest(Rest::input);
}

/// What a `Receive` cannot do by itself.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<Message>> BasicWebSocket<S>::receive_rest(Rest first) {
    using Kind = codec::websocket::MessageDecoder::Kind;
    Connection& connection = *connection_;
    if (first != Rest::input) {
        const Result<> told =
            first == Rest::silence ? co_await on_silence() : judge_control(co_await send_pending());
        if (!told) {
            co_return failure(told.error());
        }
    }
    while (!connection.end) {
        const Event event = connection.decoder().next(connection.rest);
        switch (event.kind) {
        case Kind::text:
        case Kind::binary:
            connection.deliver(event.payload);
            co_return message_of(event);
        case Kind::incomplete: {
            Result<> fed;
            connection.release_decoder();
            if (Socket* source = socket()) { // as `feed`, without its frame
                connection.release_input();
                detail::InputOperation waiting(source->receive(), patience());
                Result<Chunk> received = co_await waiting;
                fed = waiting.expired() ? co_await on_silence() : take(std::move(received));
            } else {
                fed = co_await feed(true);
            }
            if (!fed) {
                co_return failure(fed.error());
            }
            break;
        }
        default:
            if (const Result<> handled = co_await handle(event); !handled) {
                co_return failure(handled.error());
            }
        }
    }
    connection.release_input();
    co_return failure(connection.end);
}

template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<MessagePart>> BasicWebSocket<S>::receive_part() {
    using Kind = codec::websocket::MessageDecoder::Kind;
    Connection& connection = *connection_;
    if (connection.receiving) {
        co_await penstock::detail::BudgetOperation();
        co_return failure(connection.error_of_second_receiver());
    }
    const Receiving receiving(connection.receiving); // before the wait, as in `Receive`
    co_await penstock::detail::BudgetOperation();
    if (connection.inside_whole()) {
        co_return failure(std::errc::operation_in_progress);
    }
    if (!connection.inside_parts()) {
        connection.decoder().limit_frames(connection.limits->streamed_message);
    }
    connection.delivered = nullptr;
    while (!connection.end) {
        const Event event = connection.decoder().next_part(connection.rest);
        if (event.kind == Kind::text || event.kind == Kind::binary) {
            if (connection.drops_message) {
                connection.drops_message = !event.last;
                co_await penstock::detail::BudgetOperation();
                continue;
            }
            connection.idle_until = 0;
            co_return MessagePart{.kind = event.kind == Kind::text ? Message::Kind::text
                                                                   : Message::Kind::binary,
                                  .first = event.first,
                                  .last = event.last,
                                  .payload = event.payload};
        }
        const Result<> done =
            co_await (event.kind == Kind::incomplete ? feed(true) : handle(event));
        if (!done) {
            co_return failure(done.error());
        }
    }
    connection.release_input();
    co_return failure(connection.end);
}

/// Waits for bytes of the connection. All of the last ones are decoded.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::feed(bool keeps_alive) {
    Connection& connection = *connection_;
    const std::chrono::milliseconds limit =
        keeps_alive ? patience() : std::chrono::milliseconds::zero();
    if (Socket* source = socket()) {
        connection.release_input();
        detail::InputOperation waiting(source->receive(), limit);
        Result<Chunk> received = co_await waiting;
        if (waiting.expired()) {
            co_return co_await on_silence();
        }
        co_return take(std::move(received));
    }
    connection.rest = {};
    connection.delivered = nullptr;
    connection.bytes.resize(input_size);
    if (limit <= std::chrono::milliseconds::zero()) { // as an `InputOperation`
        co_return take(co_await stream_.read(MutableBytes(connection.bytes)));
    }
    const Result<std::size_t> count =
        co_await timeout(limit, stream_.read(MutableBytes(connection.bytes)));
    if (!count && count.error() == std::errc::timed_out) {
        co_return co_await on_silence();
    }
    co_return take(count);
}

template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Result<> BasicWebSocket<S>::take(Result<Chunk> received) {
    if (!received) {
        return failure(received.error());
    }
    connection_->chunk = std::move(*received);
    connection_->rest = {connection_->chunk.data(), connection_->chunk.size()};
    return took(connection_->chunk.size());
}

template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Result<> BasicWebSocket<S>::take(Result<std::size_t> received) {
    if (!received) {
        return failure(received.error());
    }
    connection_->rest = std::span(connection_->bytes).first(*received);
    return took(*received);
}

template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Result<> BasicWebSocket<S>::took(std::size_t size) {
    Connection& connection = *connection_;
    connection.pinged = false;
    if (size == 0) {
        connection.end = Error::truncated;
        connection.peer_code = codec::websocket::close_code::abnormal;
        connection.release_input();
        return failure(connection.end);
    }
    return {};
}

/// What a failure to send a ping or a pong means to the receiver. A peer that takes none in time is
/// gone, however much it sends. Another failure shows in reading, after what was received.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Result<> BasicWebSocket<S>::judge_control(const Result<>& sent) {
    if (!sent && sent.error() == std::errc::timed_out) {
        end_by_time();
        return failure(connection_->end);
    }
    return !sent && sent.error() == std::errc::operation_canceled ? sent : Result<>();
}

template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
void BasicWebSocket<S>::end_by_time() {
    connection_->end = std::make_error_code(std::errc::timed_out);
    connection_->peer_code = codec::websocket::close_code::abnormal;
}

/// Nothing has arrived for the interval of pings, or since the last one; or no message for too
/// long.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::on_silence() {
    Connection& connection = *connection_;
    if (connection.waits_for_idle) {
        end_by_time();
        co_await answer_close(codec::websocket::close_code::going_away, "no message for too long");
        co_return failure(connection.end);
    }
    if (!connection.pinged) {
        connection.pinged = true;
        connection.controls().ping = true;
        co_return judge_control(co_await send_pending());
    }
    end_by_time();
    co_await answer_close(codec::websocket::close_code::internal_error, "no answer to a ping");
    co_return failure(connection.end);
}

/// Handles a control frame or the end of the connection.
template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::handle(Event event) {
    using Kind = codec::websocket::MessageDecoder::Kind;
    Connection& connection = *connection_;
    switch (event.kind) {
    case Kind::ping:
        connection.controls().pong.assign(event.payload);
        if (const Result<> sent = judge_control(co_await send_pending()); !sent) {
            co_return sent;
        }
        break;
    case Kind::close:
        connection.end = Error::closed;
        connection.peer_code = event.code;
        if (!event.payload.empty()) {
            connection.peer_reason = std::make_unique<std::string>(
                reinterpret_cast<const char*>(event.payload.data()), event.payload.size());
        }
        connection.peer_closed = true;
        co_await answer_close(event.code, {});
        break;
    case Kind::failed: {
        const codec::websocket::Failure& reason = connection.decoder().failure();
        connection.end = detail::error_for(reason.code);
        co_await answer_close(reason.code, reason.reason);
        break;
    }
    default:
        break;
    }
    co_return Result<>();
}

} // namespace penstock::ws
