// A server's WebSocket whose client is the test itself, frame by frame.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <gtest/gtest.h>

#include <penstock/event_loop.hpp>
#include <penstock/net/tcp_stream.hpp>
#include <penstock/stream/any_stream.hpp>
#include <penstock/task/task.hpp>
#include <penstock/task/task_trace.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/ws/web_socket.hpp>

#include "coro/support/logs.hpp"
#include "coro/support/tcp_pair.hpp"
#include "coro/ws/request.hpp"

namespace penstock::testing {

/// A connection over TCP after the opening handshake.
struct RawConnection {
    net::TcpStream client;
    ws::WebSocket server;
};

/// By default, without an end to the patience, and with a timer for each wait to receive. Without
/// one for writes: a write also waits after a slow step, so on a slow machine there would be one
/// more.
inline Task<RawConnection> open_raw_connection(ws::Limits limits = {
                                                   .ping_interval = std::chrono::hours(1)}) {
    limits.write = ws::Limits::no_time;
    TcpPair pair = co_await connect_pair();
    expect(co_await pair.near.write_all(request));
    ws::WebSocket server =
        expect(co_await ws::WebSocket::accept(AnyStream(std::move(pair.far)), {.limits = limits}));
    std::array<char, 1024> head{};
    EXPECT_GT(expect(co_await pair.near.read(head)), 0U);
    co_return RawConnection{std::move(pair.near), std::move(server)};
}

inline std::size_t timers() {
    return EventLoop::current().timers().size();
}

/// How many receives go on in a task of their own.
inline std::size_t receives_in_tasks() {
    constexpr std::string_view name = "receive_rest";
    const std::string trace = trace_tasks(EventLoop::current());
    std::size_t found = 0;
    for (std::size_t at = trace.find(name); at != std::string::npos;
         at = trace.find(name, at + 1)) {
        ++found;
    }
    return found;
}

inline Task<> until_receives_in_tasks(std::size_t count) {
    while (receives_in_tasks() < count) {
        co_await turns(1);
    }
}

inline Task<Result<std::string>> read_text(net::TcpStream& stream, std::size_t size) {
    std::string text(size, ' ');
    co_await unwrap(stream.read_exactly(text));
    co_return text;
}

inline Task<Result<std::string>> receive_text(ws::WebSocket& socket) {
    const ws::Message message = co_await unwrap(socket.receive());
    co_return std::string(message.text());
}

/// What a receive returns.
struct Received {
    std::string text;
    std::error_code error;
};

inline Task<Result<>> store(ws::WebSocket& socket, Received& outcome) {
    const Result<ws::Message> received = co_await socket.receive();
    if (received) {
        outcome.text = received->text();
    } else {
        outcome.error = received.error();
    }
    co_return Result<>();
}

} // namespace penstock::testing
