// Handlers of WebSockets that are functions: over streams of each kind, and as their server sees
// them when they end.

#include <penstock/ws/callbacks.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/http/server.hpp>
#include <penstock/net/tcp_stream.hpp>
#include <penstock/net/unix_listener.hpp>
#include <penstock/stream/memory_stream.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/race.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/ws/errors.hpp>
#include <penstock/ws/server.hpp>
#include <penstock/ws/upgrade.hpp>

#include "coro/http/callback_guests.hpp"
#include "coro/http/running_server.hpp"
#include "coro/support/tcp_pair.hpp"
#include "coro/ws/frames.hpp"
#include "coro/ws/request.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using namespace penstock;
using codec::websocket::Opcode;
using penstock::testing::expect;
using penstock::testing::frame;
using penstock::testing::GuestLog;
using penstock::testing::guests;
using penstock::testing::open_raw;
using penstock::testing::plain_frame;
using penstock::testing::read_until;
using penstock::testing::url_of;
using penstock::testing::Watchdog;
using ws::CallbackSocket;
using ws::WebSocket;

TEST(WebSocketCallbacksOfServers, AnExceptionOfOnCloseIsReportedAfterACancellation) {
    const Watchdog watchdog;
    struct Fails {
        void on_close(CallbackSocket& /*socket*/, std::uint16_t code,
                      std::string_view /*reason*/) const {
            throw std::runtime_error("a defect " + std::to_string(code));
        }
    };
    std::vector<std::string> exceptions;
    const auto body = [&]() -> Task<void> {
        net::TcpListener listener = penstock::testing::listen_on_loopback();
        const net::Endpoint endpoint = expect(listener.local_endpoint());
        ws::Server server(std::move(listener),
                          {.on_exception = [&](const std::exception_ptr& thrown) {
                              try {
                                  std::rethrow_exception(thrown);
                              } catch (const std::exception& exception) {
                                  exceptions.emplace_back(exception.what());
                              }
                          }});
        std::optional<net::TcpStream> stream;
        const auto leave = [&]() -> Task<Result<>> {
            stream = co_await open_raw(endpoint);
            co_return Result<>();
        };
        (void)co_await race(server.serve(ws::Callbacks([] { return Fails(); })), leave());
    };
    run(body());
    EXPECT_EQ(exceptions, std::vector<std::string>{"a defect 1006"});
}

/// A connection that rests has no task, whose end could tell of it.
TEST(WebSocketCallbacksOfHttp, AnExceptionOfOnCloseIsReportedAfterACancellationOfOneConnection) {
    const Watchdog watchdog;
    struct Fails {
        void on_message(CallbackSocket& socket, const ws::Message& message) const {
            socket.send(message);
        }
        void on_close(CallbackSocket& /*socket*/, std::uint16_t code,
                      std::string_view /*reason*/) const {
            throw std::runtime_error("a defect " + std::to_string(code));
        }
    };
    std::vector<std::string> failures;
    http::Server server({.on_failure = [&](const http::ServerFailure& failure) {
        failures.push_back(failure.to_string());
    }});
    server.upgrade("/", "websocket", ws::upgrade_handler(ws::Callbacks([] { return Fails(); })));
    const auto serve_one = [&](net::TcpStream stream) -> Task<Result<>> {
        co_await server.serve_connection(std::move(stream));
        co_return Result<>();
    };
    const auto talk = [](net::TcpStream& stream) -> Task<Result<>> {
        expect(co_await stream.write_all(penstock::testing::request + frame(Opcode::text, "x")));
        (void)co_await read_until(stream, plain_frame(Opcode::text, "x"));
        co_return Result<>();
    };
    const auto body = [&]() -> Task<void> {
        penstock::testing::TcpPair pair = co_await penstock::testing::connect_pair();
        (void)co_await race(talk(pair.near), serve_one(std::move(pair.far)));
    };
    run(body());
    EXPECT_EQ(failures, std::vector<std::string>{"GET /: a defect 1006"});
}

TEST(WebSocketCallbacksOfHttp, AreSeenByThoseWhoWatch) {
    const Watchdog watchdog;
    GuestLog log;
    http::Server server;
    server.upgrade("/chat/{room}", "websocket", ws::upgrade_handler(guests(log)));
    server.get("/", [](http::Request&, http::Response& response) { response.body("root"); });
    penstock::testing::with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        WebSocket socket = expect(co_await WebSocket::connect(url_of(endpoint, "/chat/a")));
        expect(co_await socket.send_text("x"));
        expect(co_await socket.receive());
        const std::vector<http::OpenConnection> all = server.open_connections();
        EXPECT_EQ(all.size(), 1U);
        EXPECT_EQ(all.at(0).state, http::OpenConnection::State::upgraded);
        EXPECT_EQ(all.at(0).request, "GET /chat/a");
        EXPECT_EQ(all.at(0).requests, 1U);
        EXPECT_TRUE(all.at(0).peer.has_value());
        EXPECT_EQ(server.connections(), 1U);
        expect(co_await socket.close());
    });
}

TEST(WebSocketCallbacksOfHttp, WorkOverUnixSockets) {
    const Watchdog watchdog;
    GuestLog log;
    const penstock::testing::TemporaryFolder folder;
    const net::UnixEndpoint endpoint = *net::UnixEndpoint::path(folder.path("socket"));
    ws::Server server(expect(net::UnixListener::listen(endpoint)));
    const auto talk = [&]() -> Task<Result<>> {
        using Socket = ws::BasicWebSocket<net::UnixStream>;
        Socket socket = co_await unwrap(
            Socket::connect(co_await unwrap(net::UnixStream::connect(endpoint)), "h", "/"));
        // More than the kernel takes at once, and what came in pieces.
        const std::string large(1 << 20, 'x');
        for (const std::string_view text : {"one", large.c_str(), "three"}) {
            co_await unwrap(socket.send_text(text));
            EXPECT_TRUE((co_await unwrap(socket.receive())).text() == text);
        }
        co_await unwrap(socket.ping());
        co_await unwrap(socket.send_text("four"));
        EXPECT_EQ((co_await unwrap(socket.receive())).text(), "four");
        server.shutdown(1min);
        EXPECT_EQ((co_await socket.receive()).error(), ws::Error::closed);
        co_return Result<>();
    };
    expect(run(all(server.serve(guests(log)), talk())));
    EXPECT_EQ(log.lines, (std::vector<std::string>{"open /", "closed 1001 "}));
}

TEST(WebSocketCallbacksOfHttp, WorkOverAStreamThatIsNoSocket) {
    const Watchdog watchdog;
    GuestLog log;
    http::Server server;
    server.upgrade("/{name}", "websocket", ws::upgrade_handler(guests(log)));
    auto [near, far] = MemoryStream::pair();
    const auto talk = [](MemoryStream stream) -> Task<Result<>> {
        using Socket = ws::BasicWebSocket<MemoryStream>;
        Socket socket = co_await unwrap(Socket::connect(std::move(stream), "h", "/a"));
        for (const std::string_view text : {"one", "two", "three"}) {
            co_await unwrap(socket.send_text(text));
            EXPECT_EQ((co_await unwrap(socket.receive())).text(), text);
        }
        co_await unwrap(socket.send_text("close"));
        EXPECT_EQ((co_await unwrap(socket.receive())).text(), "before");
        EXPECT_EQ((co_await socket.receive()).error(), ws::Error::closed);
        co_return Result<>();
    };
    const auto in_memory = [&](MemoryStream stream) -> Task<Result<>> {
        co_await server.serve_connection(std::move(stream));
        co_return Result<>();
    };
    expect(run(all(talk(std::move(near)), in_memory(std::move(far)))));
    EXPECT_EQ(log.lines, (std::vector<std::string>{"open /a", "closed 4000 "}));
}

} // namespace
