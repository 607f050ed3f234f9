#include <penstock/ws/server.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/net/unix_listener.hpp>
#include <penstock/net/unix_stream.hpp>
#include <penstock/stream/any_stream.hpp>
#include <penstock/stream/read_all.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/race.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/unwrap.hpp>

#include "coro/support/tcp_pair.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::failure;
using penstock::Result;
using penstock::run;
using penstock::Scope;
using penstock::Task;
using penstock::unwrap;
using penstock::net::Endpoint;
using penstock::net::TcpStream;
using penstock::testing::expect;
using penstock::testing::Watchdog;
using penstock::ws::Message;
using penstock::ws::Server;
using penstock::ws::ServerOptions;
using penstock::ws::WebSocket;
namespace close_code = penstock::ws::close_code;

Task<Result<>> echo(WebSocket& socket) {
    for (;;) {
        const Message message = co_await unwrap(socket.receive());
        co_await unwrap(socket.send(message));
    }
}

std::string url_of(const Server& server) {
    return "ws://127.0.0.1:" + std::to_string(expect(server.local_endpoint()).port());
}

Server listen(ServerOptions options = {}) {
    return expect(Server::listen(Endpoint::loopback(0), std::move(options)));
}

/// Serves while `asking` runs, then shuts down.
Task<void> serve_while(Server& server, Server::Handler handler, Task<Result<>> asking) {
    const auto ask = [](Server& served, Task<Result<>> task) -> Task<Result<>> {
        const Result<> asked = co_await std::move(task);
        served.shutdown(1min);
        co_return asked;
    };
    expect(
        co_await penstock::all(server.serve(std::move(handler)), ask(server, std::move(asking))));
    EXPECT_EQ(server.connections(), 0U);
}

TEST(WebSocketServer, ServesManyConnections) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Server server = listen();
        const auto ask = [](std::string url, int number) -> Task<Result<>> {
            WebSocket socket = co_await unwrap(WebSocket::connect(std::move(url)));
            for (int i = 0; i < 20; ++i) {
                const std::string text = std::to_string(number * 1000 + i);
                co_await unwrap(socket.send_text(text));
                EXPECT_EQ((co_await unwrap(socket.receive())).text(), text);
            }
            co_await unwrap(socket.close());
            EXPECT_EQ(socket.close_code(), close_code::normal);
            co_return Result<>();
        };
        const auto asking = [&]() -> Task<Result<>> {
            co_return co_await penstock::with_scope([&](Scope& scope) -> Task<Result<>> {
                for (int i = 0; i < 20; ++i) {
                    scope.spawn(ask(url_of(server), i));
                }
                co_return Result<>();
            });
        };
        co_await serve_while(server, echo, asking());
    };
    run(program());
}

TEST(WebSocketServer, ClosesWhenTheHandlerReturns) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        std::vector<std::error_code> errors;
        Server server =
            listen({.on_error = [&](std::error_code error) { errors.push_back(error); }});
        const auto handler = [](WebSocket& socket) -> Task<Result<>> {
            if (socket.target() == "/fails") {
                co_return failure(std::errc::io_error);
            }
            co_return co_await socket.send_text("bye");
        };
        const auto asking = [&]() -> Task<Result<>> {
            WebSocket socket = co_await unwrap(WebSocket::connect(url_of(server)));
            EXPECT_EQ((co_await unwrap(socket.receive())).text(), "bye");
            EXPECT_EQ((co_await socket.receive()).error(), penstock::ws::Error::closed);
            EXPECT_EQ(socket.close_code(), close_code::normal);
            WebSocket failing = co_await unwrap(WebSocket::connect(url_of(server) + "/fails"));
            EXPECT_EQ((co_await failing.receive()).error(), penstock::ws::Error::closed);
            EXPECT_EQ(failing.close_code(), close_code::internal_error);
            co_return Result<>();
        };
        co_await serve_while(server, handler, asking());
        EXPECT_EQ(errors.size(), 1U);
        EXPECT_EQ(errors.front(), std::errc::io_error);
    };
    run(program());
}

TEST(WebSocketServer, AnExceptionEndsItsConnectionAlone) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        std::vector<std::string> thrown;
        Server server = listen({.on_exception = [&](const std::exception_ptr& exception) {
            try {
                std::rethrow_exception(exception);
            } catch (const std::exception& error) {
                thrown.emplace_back(error.what());
            }
        }});
        const auto handler = [](WebSocket& socket) -> Task<Result<>> {
            const Message message = co_await unwrap(socket.receive());
            if (message.text() == "throw") {
                throw std::runtime_error("a defect");
            }
            co_await unwrap(socket.send(message));
            co_return co_await echo(socket);
        };
        const auto asking = [&]() -> Task<Result<>> {
            WebSocket other = co_await unwrap(WebSocket::connect(url_of(server)));
            co_await unwrap(other.send_text("before"));
            EXPECT_EQ((co_await unwrap(other.receive())).text(), "before");
            WebSocket failing = co_await unwrap(WebSocket::connect(url_of(server)));
            co_await unwrap(failing.send_text("throw"));
            EXPECT_EQ((co_await failing.receive()).error(), penstock::ws::Error::closed);
            EXPECT_EQ(failing.close_code(), close_code::internal_error);
            co_await unwrap(other.send_text("after"));
            EXPECT_EQ((co_await unwrap(other.receive())).text(), "after");
            co_return co_await other.close();
        };
        co_await serve_while(server, handler, asking());
        EXPECT_EQ(thrown, (std::vector<std::string>{"a defect"}));
    };
    run(program());
}

TEST(WebSocketServer, AnExceptionOfTheEncryptionEndsItsConnectionAlone) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        std::size_t thrown = 0;
        bool fails = true;
        Server server =
            listen({.encrypt = [&](TcpStream stream) -> Task<Result<penstock::AnyStream>> {
                        if (std::exchange(fails, false)) {
                            throw std::runtime_error("a defect");
                        }
                        co_return penstock::AnyStream(std::move(stream));
                    },
                    .on_exception = [&](const std::exception_ptr&) { ++thrown; }});
        const auto asking = [&]() -> Task<Result<>> {
            EXPECT_FALSE(co_await WebSocket::connect(url_of(server)));
            WebSocket socket = co_await unwrap(WebSocket::connect(url_of(server)));
            co_return co_await socket.close();
        };
        co_await serve_while(server, echo, asking());
        EXPECT_EQ(thrown, 1U);
    };
    run(program());
}

TEST(WebSocketServer, TakesAHandlerThatReturnsNothing) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Server server = listen();
        const auto handler = [](WebSocket& socket) -> Task<void> {
            expect(co_await socket.send_text("once"));
        };
        const auto asking = [&]() -> Task<Result<>> {
            WebSocket socket = co_await unwrap(WebSocket::connect(url_of(server)));
            EXPECT_EQ((co_await unwrap(socket.receive())).text(), "once");
            server.shutdown();
            co_return co_await socket.close();
        };
        expect(co_await penstock::all(server.serve(handler), asking()));
    };
    run(program());
}

TEST(WebSocketServer, AShutdownClosesWithGoingAway) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Server server = listen();
        const std::string url = url_of(server);
        const auto asking = [&]() -> Task<Result<>> {
            WebSocket socket = co_await unwrap(WebSocket::connect(url));
            co_await unwrap(socket.send_text("before"));
            EXPECT_EQ((co_await unwrap(socket.receive())).text(), "before");
            server.shutdown(1min);
            server.shutdown(0ms); // the first call counts
            EXPECT_EQ((co_await socket.receive()).error(), penstock::ws::Error::closed);
            EXPECT_EQ(socket.close_code(), close_code::going_away);
            EXPECT_EQ(socket.close_reason(), "the server stops");
            EXPECT_EQ((co_await WebSocket::connect(url)).error(), std::errc::connection_refused);
            co_return Result<>();
        };
        expect(co_await penstock::all(server.serve(echo), asking()));
        EXPECT_EQ((co_await server.serve(echo)).error(), std::errc::device_or_resource_busy);
    };
    run(program());
}

TEST(WebSocketServer, AShutdownCancelsHandlersAfterTheGrace) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Server server = listen();
        bool cancelled = false;
        const auto handler = [&](WebSocket& socket) -> Task<Result<>> {
            expect(co_await socket.send_text("begun"));
            const Result<> slept = co_await penstock::sleep_for(1h);
            cancelled = !slept;
            co_return slept;
        };
        const auto asking = [&]() -> Task<Result<>> {
            WebSocket socket = co_await unwrap(WebSocket::connect(url_of(server)));
            EXPECT_EQ((co_await unwrap(socket.receive())).text(), "begun");
            server.shutdown(1ms);
            EXPECT_EQ((co_await socket.receive()).error(), penstock::ws::Error::closed);
            co_return Result<>();
        };
        expect(co_await penstock::all(server.serve(handler), asking()));
        EXPECT_TRUE(cancelled);
    };
    run(program());
}

TEST(WebSocketServer, RefusesWhatIsNoHandshakeAndGoesOn) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        std::vector<std::error_code> errors;
        Server server =
            listen({.accept = {.limits = {.handshake = 20ms}},
                    .on_error = [&](std::error_code error) { errors.push_back(error); }});
        const auto asking = [&]() -> Task<Result<>> {
            const Endpoint endpoint = expect(server.local_endpoint());
            TcpStream silent = co_await unwrap(TcpStream::connect(endpoint));
            EXPECT_EQ(co_await penstock::read_all_text(silent), "");
            TcpStream other = co_await unwrap(TcpStream::connect(endpoint));
            co_await unwrap(other.write_all("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
            EXPECT_TRUE(
                (co_await unwrap(penstock::read_all_text(other))).starts_with("HTTP/1.1 426 "));
            WebSocket socket = co_await unwrap(WebSocket::connect(url_of(server)));
            co_return co_await socket.close();
        };
        co_await serve_while(server, echo, asking());
        EXPECT_EQ(errors.size(), 2U);
    };
    run(program());
}

TEST(WebSocketServer, LimitsTheNumberOfConnections) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Server server = listen({.maximum_connections = 1});
        std::size_t most = 0;
        const auto handler = [&](WebSocket& socket) -> Task<Result<>> {
            most = std::max(most, server.connections());
            co_return co_await echo(socket);
        };
        const auto ask = [](std::string url) -> Task<Result<>> {
            WebSocket socket = co_await unwrap(WebSocket::connect(std::move(url)));
            co_await unwrap(socket.send_text("x"));
            co_await unwrap(socket.receive());
            co_return co_await socket.close();
        };
        const auto asking = [&]() -> Task<Result<>> {
            co_await unwrap(penstock::all(ask(url_of(server)), ask(url_of(server))));
            co_return Result<>();
        };
        co_await serve_while(server, handler, asking());
        EXPECT_EQ(most, 1U);
    };
    run(program());
}

TEST(WebSocketServer, EndsAllConnectionsWhenItIsCancelled) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Server server = listen();
        const auto asking = [&]() -> Task<Result<>> {
            WebSocket socket = co_await unwrap(WebSocket::connect(url_of(server)));
            co_await unwrap(socket.send_text("x"));
            co_await unwrap(socket.receive());
            co_return Result<>();
        };
        const auto first = co_await penstock::race(server.serve(echo), asking());
        EXPECT_EQ(first.index(), 1U);
        EXPECT_EQ(server.connections(), 0U);
    };
    run(program());
}

TEST(WebSocketServer, ServesAUnixSocket) {
    const penstock::testing::TemporaryFolder folder;
    const auto endpoint = expect(penstock::net::UnixEndpoint::path(folder.path("socket")));
    Server server(expect(penstock::net::UnixListener::listen(endpoint)));
    EXPECT_EQ(server.local_endpoint(),
              Result<Endpoint>(failure(std::errc::address_family_not_supported)));
    const auto ask = [&]() -> Task<Result<>> {
        auto stream = co_await unwrap(penstock::net::UnixStream::connect(endpoint));
        auto socket = co_await unwrap(
            WebSocket::connect(penstock::AnyStream(std::move(stream)), "local", "/chat"));
        co_await unwrap(socket.send_text("hello"));
        EXPECT_EQ((co_await unwrap(socket.receive())).text(), "hello");
        EXPECT_EQ(server.connections(), 1U);
        co_return co_await socket.close();
    };
    run(serve_while(server, echo, ask()));
}

} // namespace
