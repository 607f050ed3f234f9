#pragma once

// Handlers that are functions, and what they were told.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/net/tcp_stream.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/ws/callbacks.hpp>

#include "coro/http/running_server.hpp"
#include "coro/support/tcp_pair.hpp"
#include "coro/ws/request.hpp"

namespace penstock::testing {

/// What a handler was told, in order.
struct GuestLog {
    std::vector<std::string> lines;
    std::vector<ws::CallbackSocket*> open;
    sync::Event closed;
    sync::Event drained;
};

/// Echoes, and obeys: "close", "throw".
struct Guest {
    explicit Guest(GuestLog& given) : log(given) {}

    void on_open(ws::CallbackSocket& socket) {
        log.open.push_back(&socket);
        log.lines.push_back("open " + std::string(socket.target()));
    }
    void on_message(ws::CallbackSocket& socket, const ws::Message& message) {
        if (message.text() == "close") {
            EXPECT_NE(socket.send_text("before"), ws::Sent::closed);
            socket.close(4000, "enough");
            EXPECT_EQ(socket.send_text("behind"), ws::Sent::closed);
        } else if (message.text() == "throw") {
            throw std::runtime_error("a defect");
        } else {
            EXPECT_NE(socket.send(message), ws::Sent::closed);
        }
    }
    void on_drain(ws::CallbackSocket& socket) {
        EXPECT_EQ(socket.backlog(), 0U);
        log.drained.set();
    }
    void on_close(ws::CallbackSocket& socket, std::uint16_t code, std::string_view reason) {
        EXPECT_EQ(socket.send_text("too late"), ws::Sent::closed);
        std::erase(log.open, &socket);
        log.lines.push_back("closed " + std::to_string(code) + " " + std::string(reason));
        log.closed.set();
    }

    GuestLog& log;
};

inline ws::Callbacks guests(GuestLog& log, const ws::SubscriberOptions& slow = {}) {
    return ws::Callbacks([&log] { return Guest(log); }, slow);
}

inline std::string url_of(net::Endpoint endpoint, std::string_view target = "/") {
    return "ws://" + endpoint.to_string() + std::string(target);
}

/// After the opening handshake.
inline Task<net::TcpStream> open_raw(net::Endpoint endpoint) {
    net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
    expect(co_await stream.write_all(request));
    (void)co_await read_until(stream, "\r\n\r\n");
    co_return stream;
}

} // namespace penstock::testing
