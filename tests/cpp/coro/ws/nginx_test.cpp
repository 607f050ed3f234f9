// ws::Server behind nginx, which passes the handshake, with its extension, and then the bytes.

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <penstock/penstock.hpp>
#include <penstock/ws.hpp>

#include "coro/support/nginx.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/required_program.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::AnyStream;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::unwrap;
using penstock::net::Endpoint;
using penstock::net::UnixEndpoint;
using penstock::net::UnixStream;
using penstock::testing::expect;
using penstock::testing::Nginx;
using penstock::testing::require_program;
using penstock::testing::Watchdog;
using penstock::ws::Message;
using penstock::ws::Server;
using penstock::ws::WebSocket;
namespace close_code = penstock::ws::close_code;

Task<Result<>> echo(WebSocket& socket) {
    for (;;) {
        const Message message = co_await unwrap(socket.receive());
        co_await unwrap(socket.send(message));
    }
}

class WebSocketBehindNginx : public ::testing::Test {
protected:
    void SetUp() override { require_program("nginx", Nginx::is_installed()); }

    /// Starts nginx in front of the server, and opens a connection through it.
    Task<WebSocket> connect() {
        const std::string address = expect(server_.local_endpoint()).to_string();
        co_await nginx_.start("location / { proxy_pass http://" + address +
                              "; proxy_http_version 1.1; proxy_set_header Host $host;\n"
                              "proxy_set_header Connection upgrade;\n"
                              "proxy_set_header Upgrade $http_upgrade; }");
        auto stream =
            expect(co_await UnixStream::connect(expect(UnixEndpoint::path(nginx_.socket()))));
        co_return expect(co_await WebSocket::connect(AnyStream(std::move(stream)), "a", "/",
                                                     {.compression = penstock::ws::deflate()}));
    }

    const Watchdog watchdog_;
    Server server_{expect(Server::listen(Endpoint::loopback(0),
                                         {.accept = {.compression = penstock::ws::deflate()}}))};
    Nginx nginx_;
};

TEST_F(WebSocketBehindNginx, EchoesMessages) {
    const auto ask = [this]() -> Task<Result<>> {
        WebSocket socket = co_await connect();
        EXPECT_TRUE(socket.compression());
        for (const std::size_t size : {1, 126, 70'000, 1'000'000}) {
            const std::string text(size, 'w');
            co_await unwrap(socket.send_text(text));
            EXPECT_TRUE((co_await unwrap(socket.receive())).text() == text) << size;
        }
        co_await unwrap(socket.close(close_code::normal, "done"));
        server_.shutdown(1min);
        co_return Result<>();
    };
    const auto program = [&]() -> Task<> {
        expect(co_await penstock::all(server_.serve(echo), ask()));
    };
    run(program());
}

TEST_F(WebSocketBehindNginx, AnnouncesItsShutdown) {
    const auto ask = [this]() -> Task<Result<>> {
        WebSocket socket = co_await connect();
        co_await unwrap(socket.send_text("before"));
        EXPECT_EQ((co_await unwrap(socket.receive())).text(), "before");
        server_.shutdown(1min);
        const Result<Message> after = co_await socket.receive();
        EXPECT_EQ(after.error(), penstock::ws::Error::closed);
        EXPECT_EQ(socket.close_code(), close_code::going_away);
        co_return Result<>();
    };
    const auto program = [&]() -> Task<> {
        expect(co_await penstock::all(server_.serve(echo), ask()));
    };
    run(program());
}

} // namespace
