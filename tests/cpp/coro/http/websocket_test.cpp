// WebSockets as routes of an HTTP server.

#include <penstock/ws/upgrade.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/net/unix_listener.hpp>
#include <penstock/stream/memory_stream.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/task/yield.hpp>
#include <penstock/ws/errors.hpp>
#include <penstock/ws/web_socket.hpp>

#include "coro/http/running_server.hpp"
#include "coro/ws/request.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using namespace penstock;
using http::Upgrade;
using penstock::testing::exchange;
using penstock::testing::expect;
using penstock::testing::read_until;
using penstock::testing::status_line;
using penstock::testing::Watchdog;
using penstock::testing::with_server;
using penstock::testing::without_date;
using ws::WebSocket;

Task<Result<>> echo(WebSocket& socket) {
    for (;;) {
        const ws::Message message = co_await unwrap(socket.receive());
        co_await unwrap(socket.send(message));
    }
}

std::string url_of(net::Endpoint endpoint, std::string_view target) {
    return "ws://" + endpoint.to_string() + std::string(target);
}

/// The frame of a client's text, with a mask key of zeros.
std::string masked(std::string_view text) {
    std::string frame = "\x81";
    frame += static_cast<char>(0x80 | text.size());
    return frame + std::string(4, '\0') + std::string(text);
}

std::string unmasked(std::string_view text) {
    std::string frame = "\x81";
    frame += static_cast<char>(text.size());
    return frame + std::string(text);
}

struct Site {
    std::vector<std::string> failures;
    std::vector<std::string> notices;
    http::Server server;

    explicit Site(ws::Handler handler = echo, ws::AcceptOptions options = {})
        : server([this] {
              http::ServerOptions hooks;
              hooks.on_failure = [this](const http::ServerFailure& failure) {
                  const bool fails = failure.level == http::ServerFailure::Level::failure;
                  (fails ? failures : notices).push_back(failure.to_string());
              };
              return hooks;
          }()) {
        server.get("/", [](http::Request&, http::Response& response) { response.body("root"); });
        server.upgrade("/chat/{room}", "websocket",
                       ws::upgrade_handler(std::move(handler), std::move(options)));
    }
};

TEST(HttpServerWebSocket, SharesAPortWithHttp) {
    const Watchdog watchdog;
    Site site(echo, {.subprotocols = {"talk"}});
    with_server(site.server, [](net::Endpoint endpoint) -> Task<void> {
        auto socket = expect(
            co_await WebSocket::connect(url_of(endpoint, "/chat/a?b"), {.subprotocols = {"talk"}}));
        EXPECT_EQ(socket.subprotocol(), "talk");
        for (const std::size_t size : {0, 1, 126, 70'000, 1 << 20}) {
            const std::string text(size, 'x');
            expect(co_await socket.send_text(text));
            EXPECT_TRUE(expect(co_await socket.receive()).text() == text) << size;
        }
        const std::string plain = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        EXPECT_TRUE((co_await exchange(endpoint, plain)).ends_with("\r\n\r\nroot"));
        const std::string no_socket = "GET /chat/a HTTP/1.1\r\nHost: a\r\n\r\n";
        EXPECT_EQ(status_line(co_await exchange(endpoint, no_socket)),
                  "HTTP/1.1 426 Upgrade Required");
        expect(co_await socket.close());
        EXPECT_EQ(socket.close_code(), ws::close_code::normal);
    });
    EXPECT_EQ(site.failures, std::vector<std::string>());
}

TEST(HttpServerWebSocket, ReadsWhatCameWithTheRequest) {
    const Watchdog watchdog;
    Site site([](WebSocket& socket) -> Task<Result<>> {
        EXPECT_EQ(socket.target(), "/chat/b");
        EXPECT_EQ(socket.fields().find("Host"), "h");
        co_return co_await echo(socket);
    });
    std::string request = penstock::testing::request;
    request.replace(0, std::string_view("GET / ").size(), "GET /chat/b ");
    const std::string first = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    with_server(site.server, [&](net::Endpoint endpoint) -> Task<void> {
        // All at once, behind an answered request; and byte by byte.
        for (const bool together : {true, false}) {
            net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
            const std::string sent = first + request + masked("one") + masked("two");
            for (std::string_view rest = sent; !rest.empty();) {
                const std::string_view part = rest.substr(0, together ? rest.size() : 1);
                expect(co_await stream.write_all(part));
                rest.remove_prefix(part.size());
            }
            const std::string answer = without_date(co_await read_until(stream, unmasked("two")));
            EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nroot"
                                           "HTTP/1.1 101 Switching Protocols\r\n"))
                << answer;
            EXPECT_TRUE(answer.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"))
                << answer;
            EXPECT_TRUE(answer.ends_with("\r\n\r\n" + unmasked("one") + unmasked("two"))) << answer;
        }
    });
}

TEST(HttpServerWebSocket, IsTakenOverWithOneCall) {
    const Watchdog watchdog;
    http::Server server;
    server.upgrade("/{name}", "websocket", [](Upgrade& upgrade) -> Task<Result<>> {
        auto socket = co_await unwrap(WebSocket::accept(upgrade));
        std::array<char, 1> byte{};
        EXPECT_FALSE(co_await upgrade.read(byte)); // it was given away
        EXPECT_FALSE(co_await upgrade.write_all("x"));
        co_await unwrap(socket.send_text("hello " + upgrade.request().parameter("name")));
        co_return co_await socket.close();
    });
    with_server(server, [](net::Endpoint endpoint) -> Task<void> {
        auto socket = expect(co_await WebSocket::connect(url_of(endpoint, "/mia")));
        EXPECT_EQ(expect(co_await socket.receive()).text(), "hello mia");
        EXPECT_EQ((co_await socket.receive()).error(), ws::Error::closed);
    });
}

TEST(HttpServerWebSocket, ClosesWhenTheServerStopsRightBehindTheHandshake) {
    const Watchdog watchdog;
    for (int steps = 0; steps < 6; ++steps) {
        sync::Event asked;
        Site site(echo, {.check = [&](const codec::http::RequestHead&) {
                      asked.set();
                      return 0;
                  }});
        with_server(site.server, [&](net::Endpoint endpoint) -> Task<void> {
            const auto stop = [&]() -> Task<Result<>> {
                co_await unwrap(asked.wait());
                for (int step = 0; step < steps; ++step) {
                    co_await unwrap(yield());
                }
                site.server.stop(2s);
                co_return Result<>();
            };
            const auto talk = [&]() -> Task<Result<>> {
                auto socket = co_await unwrap(WebSocket::connect(url_of(endpoint, "/chat/a")));
                EXPECT_EQ((co_await socket.receive()).error(), ws::Error::closed) << steps;
                EXPECT_EQ(socket.close_code(), ws::close_code::going_away) << steps;
                co_return Result<>();
            };
            EXPECT_TRUE(co_await all(stop(), talk()));
        });
    }
}

TEST(HttpServerWebSocket, ClosesWhenTheServerStops) {
    const Watchdog watchdog;
    ws::Error seen{};
    Site site([&](WebSocket& socket) -> Task<Result<>> {
        const Result<ws::Message> message = co_await socket.receive();
        seen = message ? ws::Error{} : static_cast<ws::Error>(message.error().value());
        co_return Result<>();
    });
    with_server(site.server, [&](net::Endpoint endpoint) -> Task<void> {
        auto socket = expect(co_await WebSocket::connect(url_of(endpoint, "/chat/a")));
        site.server.stop(1h);
        EXPECT_EQ((co_await socket.receive()).error(), ws::Error::closed);
        EXPECT_EQ(socket.close_code(), ws::close_code::going_away);
    });
    EXPECT_EQ(seen, ws::Error::closed);
    EXPECT_EQ(site.failures, std::vector<std::string>());
}

TEST(HttpServerWebSocket, IsCancelledAfterTheGracePeriod) {
    const Watchdog watchdog;
    Site site;
    with_server(site.server, [&](net::Endpoint endpoint) -> Task<void> {
        auto socket = expect(co_await WebSocket::connect(url_of(endpoint, "/chat/a")));
        site.server.stop(0s); // the client does not answer the close frame
    });
    EXPECT_EQ(site.server.connections(), 0);
}

TEST(HttpServerWebSocket, ReportsAFailedHandler) {
    const Watchdog watchdog;
    Site site([](WebSocket&) -> Task<Result<>> { co_return failure(std::errc::io_error); });
    with_server(site.server, [&](net::Endpoint endpoint) -> Task<void> {
        auto socket = expect(co_await WebSocket::connect(url_of(endpoint, "/chat/a")));
        EXPECT_EQ((co_await socket.receive()).error(), ws::Error::closed);
        EXPECT_EQ(socket.close_code(), ws::close_code::internal_error);
    });
    EXPECT_EQ(site.failures, std::vector<std::string>{"GET /chat/a: Input/output error"});
}

TEST(HttpServerWebSocket, ReportsAnExceptionOfAHandler) {
    const Watchdog watchdog;
    Site site([](WebSocket&) -> Task<Result<>> {
        throw std::runtime_error("a defect");
        co_return Result<>();
    });
    with_server(site.server, [&](net::Endpoint endpoint) -> Task<void> {
        auto socket = expect(co_await WebSocket::connect(url_of(endpoint, "/chat/a")));
        EXPECT_EQ((co_await socket.receive()).error(), ws::Error::closed);
        EXPECT_EQ(socket.close_code(), ws::close_code::internal_error);
    });
    EXPECT_EQ(site.failures, std::vector<std::string>{"GET /chat/a: a defect"});
}

TEST(HttpServerWebSocket, RefusesAnInvalidHandshake) {
    const Watchdog watchdog;
    Site site;
    with_server(site.server, [](net::Endpoint endpoint) -> Task<void> {
        std::string request = penstock::testing::request;
        request.replace(0, std::string_view("GET / ").size(), "GET /chat/b ");
        request.replace(request.find("dGhl"), 4, "");
        EXPECT_EQ(status_line(co_await exchange(endpoint, request)), "HTTP/1.1 400 Bad Request");
        auto socket = expect(co_await WebSocket::connect(url_of(endpoint, "/chat/a")));
        expect(co_await socket.close());
    });
    EXPECT_EQ(site.failures, std::vector<std::string>());
    EXPECT_EQ(site.notices.size(), 1);
}

/// A normal end and what a stranger can cause are no failures of the server.
TEST(HttpServerWebSocket, ReportsNoEndByThePeerAsAFailure) {
    const Watchdog watchdog;
    struct Case {
        std::string_view what;
        std::function<Task<void>(net::TcpStream&)> end;
        std::size_t notices;
    };
    const std::vector<Case> cases{
        {"it resets",
         [](net::TcpStream& stream) -> Task<void> {
             stream.reset();
             co_return;
         },
         0},
        {"it ends its output",
         [](net::TcpStream& stream) -> Task<void> {
             expect(stream.shutdown());
             co_return;
         },
         0},
        {"it answers no ping",
         [](net::TcpStream& stream) -> Task<void> { (void)co_await read_all_text(stream); }, 0},
        {"it violates the protocol",
         [](net::TcpStream& stream) -> Task<void> {
             expect(co_await stream.write_all(unmasked("x")));
             (void)co_await read_all_text(stream);
         },
         1},
    };
    for (const Case& each : cases) {
        SCOPED_TRACE(each.what);
        Site site(echo, {.limits = {.close = 10ms, .ping_interval = 30ms, .ping_timeout = 10ms}});
        with_server(site.server, [&](net::Endpoint endpoint) -> Task<void> {
            net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
            std::string request = penstock::testing::request;
            request.replace(0, std::string_view("GET / ").size(), "GET /chat/b ");
            expect(co_await stream.write_all(request));
            (void)co_await read_until(stream, "\r\n\r\n");
            co_await each.end(stream);
        });
        EXPECT_EQ(site.failures, std::vector<std::string>());
        EXPECT_EQ(site.notices.size(), each.notices);
    }
}

TEST(HttpServerWebSocket, WorksOverOtherStreams) {
    const Watchdog watchdog;
    const auto talk = [](auto stream) -> Task<Result<>> {
        using Socket = ws::BasicWebSocket<decltype(stream)>;
        auto socket = co_await unwrap(Socket::connect(std::move(stream), "h", "/chat/a"));
        co_await unwrap(socket.send_text("over"));
        EXPECT_EQ((co_await unwrap(socket.receive())).text(), "over");
        co_return co_await socket.close();
    };
    Site site;
    auto [near, far] = MemoryStream::pair();
    const auto in_memory = [&]() -> Task<Result<>> {
        co_await site.server.serve_connection(std::move(far));
        co_return Result<>();
    };
    expect(run(all(talk(std::move(near)), in_memory())));
    const penstock::testing::TemporaryFolder folder;
    const net::UnixEndpoint endpoint = *net::UnixEndpoint::path(folder.path("socket"));
    const auto local = [&]() -> Task<Result<>> {
        co_await unwrap(talk(co_await unwrap(net::UnixStream::connect(endpoint))));
        site.server.stop(1h);
        co_return Result<>();
    };
    expect(run(all(site.server.serve(expect(net::UnixListener::listen(endpoint))), local())));
    EXPECT_EQ(site.failures, std::vector<std::string>());
}

} // namespace
