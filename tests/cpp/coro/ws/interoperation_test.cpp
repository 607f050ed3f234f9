// Both roles against the Python library `websockets` and against Bun, as processes.

#include <penstock/penstock.hpp>
#include <penstock/ws.hpp>

#include <cstddef>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "coro/support/tcp_pair.hpp"
#include "support/required_program.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::BufReader;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::net::TcpListener;
using penstock::net::TcpStream;
using penstock::process::Child;
using penstock::process::Command;
using penstock::process::ExitStatus;
using penstock::process::Stdio;
using penstock::testing::expect;
using penstock::testing::require_program;
using penstock::testing::Watchdog;
using penstock::ws::AcceptOptions;
using penstock::ws::BasicWebSocket;
using penstock::ws::Message;
using penstock::ws::WebSocket;

class WebSocketInteroperation : public ::testing::Test {
protected:
    void SetUp() override {
        const auto probe = []() -> Task<bool> {
            auto child = Command(PENSTOCK_PYTHON)
                             .arguments({"-c", "import websockets.asyncio"})
                             .error(Stdio::null())
                             .spawn();
            co_return child&& expect(co_await child->wait()) == ExitStatus::exited(0);
        };
        require_program("websockets", run(probe()));
    }
};

Child start_peer(std::string_view command, std::string_view argument = "") {
    return expect(Command(PENSTOCK_PYTHON)
                      .arguments({PENSTOCK_WEBSOCKET_PEER, command, argument})
                      .output(Stdio::pipe())
                      .kill_on_close()
                      .spawn());
}

Task<std::string> first_line(Child& peer) {
    BufReader reader(peer.output);
    co_return std::string(expect(co_await reader.line()).value_or("(the end)"));
}

TEST_F(WebSocketInteroperation, AsksAServer) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Child peer = start_peer("serve");
        const std::string url = "ws://localhost:" + co_await first_line(peer);
        auto socket = expect(co_await WebSocket::connect(url, {.subprotocols = {"soap", "chat"}}));
        EXPECT_EQ(socket.subprotocol(), "chat");
        for (const std::size_t size : {3, 126, 65536, 1 << 20}) {
            const std::string payload(size, 'x');
            expect(co_await socket.send_text(payload));
            Message answer = expect(co_await socket.receive());
            EXPECT_TRUE(answer.is_text() && answer.text() == payload) << size;
            expect(co_await socket.send_binary(payload));
            answer = expect(co_await socket.receive());
            EXPECT_TRUE(!answer.is_text() && answer.text() == payload) << size;
        }
        expect(co_await socket.send_text("close"));
        EXPECT_EQ((co_await socket.receive()).error(), penstock::ws::Error::closed);
        EXPECT_EQ(socket.close_code(), 4001);
        EXPECT_EQ(socket.close_reason(), "asked");
    };
    run(program());
}

TEST_F(WebSocketInteroperation, ServesAClient) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        TcpListener listener = penstock::testing::listen_on_loopback();
        Child peer = start_peer("ask", std::to_string(expect(listener.local_endpoint()).port()));
        using penstock::ws::Error;
        for (const Error error : {Error::closed, Error::message_too_big}) {
            auto socket = expect(co_await BasicWebSocket<TcpStream>::accept(
                expect(co_await listener.accept()), AcceptOptions{.subprotocols = {"chat"}}));
            EXPECT_EQ(socket.target(), "/path");
            Result<Message> message = co_await socket.receive();
            while (message) {
                expect(co_await socket.send(*message));
                message = co_await socket.receive();
            }
            EXPECT_EQ(message.error(), error);
            expect(co_await socket.close());
            if (error == Error::closed) {
                EXPECT_EQ(socket.close_code(), 4002);
                EXPECT_EQ(socket.close_reason(), "done");
            }
        }
        EXPECT_EQ(co_await first_line(peer), "ok");
        EXPECT_EQ(co_await peer.wait(), ExitStatus::exited(0));
    };
    run(program());
}

class WebSocketWithBun : public ::testing::Test {
protected:
    void SetUp() override {
        const auto probe = []() -> Task<bool> {
            auto child =
                Command(PENSTOCK_BUN).arguments({"--version"}).output(Stdio::null()).spawn();
            co_return child&& expect(co_await child->wait()) == ExitStatus::exited(0);
        };
        if (!run(probe())) {
            GTEST_SKIP() << "Bun is not in build/bun; scripts/setup installs it where npm is.";
        }
    }

    static Child start(std::string_view command, std::string_view argument = "") {
        return expect(Command(PENSTOCK_BUN)
                          .arguments({PENSTOCK_BUN_PEER, command, argument})
                          .output(Stdio::pipe())
                          .kill_on_close()
                          .spawn());
    }
};

TEST_F(WebSocketWithBun, AsksAServerThatCompresses) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Child peer = start("serve");
        auto socket =
            expect(co_await WebSocket::connect("ws://127.0.0.1:" + co_await first_line(peer),
                                               {.compression = penstock::ws::deflate()}));
        EXPECT_TRUE(socket.compression());
        for (const std::size_t size : {0, 3, 126, 65536, 1 << 20}) {
            const std::string payload(size, 'x');
            for (const bool text : {false, true}) {
                expect(co_await (text ? socket.send_text(payload) : socket.send_binary(payload)));
                const Message answer = expect(co_await socket.receive());
                EXPECT_TRUE(answer.is_text() == text && answer.text() == payload) << size;
            }
        }
        expect(co_await socket.close(4000, "enough"));
        EXPECT_EQ(socket.close_code(), 4000);
    };
    run(program());
}

TEST_F(WebSocketWithBun, ServesAClientThatCompresses) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        TcpListener listener = penstock::testing::listen_on_loopback();
        const std::string port = std::to_string(expect(listener.local_endpoint()).port());
        Child peer = start("ask", "ws://127.0.0.1:" + port);
        auto socket = expect(co_await BasicWebSocket<TcpStream>::accept(
            expect(co_await listener.accept()), {.compression = penstock::ws::deflate()}));
        Result<Message> message = co_await socket.receive();
        while (message) {
            expect(co_await socket.send(*message));
            message = co_await socket.receive();
        }
        EXPECT_EQ(message.error(), penstock::ws::Error::closed);
        EXPECT_EQ(socket.close_code(), 4002);
        EXPECT_EQ(co_await first_line(peer), "ok");
    };
    run(program());
}

} // namespace
