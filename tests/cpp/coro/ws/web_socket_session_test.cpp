#include <penstock/ws/web_socket_session.hpp>

#include <penstock/sync/event.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/race.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/ws/server.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "coro/support/tcp_pair.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace penstock;
using namespace std::chrono_literals;
using penstock::testing::expect;
using penstock::testing::Watchdog;
using ws::SessionOptions;
using ws::WebSocket;
using ws::WebSocketSession;

/// Runs `client(url)` beside a server with this handler.
template <typename Client>
void with_server(const ws::Handler& handler, Client client, ws::ServerOptions options = {}) {
    const Watchdog watchdog;
    const auto body = [&]() -> Task<void> {
        ws::Server server =
            expect(ws::Server::listen(net::Endpoint::loopback(0), std::move(options)));
        const auto work = [&]() -> Task<Result<>> {
            co_await client("ws://127.0.0.1:" +
                            std::to_string(expect(server.local_endpoint()).port()));
            server.shutdown(0ms);
            co_return Result<>();
        };
        expect(co_await all(server.serve(handler), work()));
    };
    run(body());
}

SessionOptions hasty() {
    return {.first_delay = 1ms, .longest_delay = 2ms};
}

Task<std::string> next(WebSocketSession& session) {
    co_return std::string(expect(co_await session.receive()).text());
}

TEST(WebSocketSession, ConnectsAgainAndSubscribesAgain) {
    std::vector<std::string> got;
    int connections = 0;
    const auto handler = [&](WebSocket& socket) -> Task<Result<>> {
        const std::string number = std::to_string(++connections);
        for (int i = 0; i < 2; ++i) {
            got.emplace_back((co_await unwrap(socket.receive())).text());
        }
        co_await unwrap(socket.send_text(number));
        if (connections < 3) {
            co_return Result<>(); // which ends the connection
        }
        got.emplace_back((co_await unwrap(socket.receive())).text());
        co_return co_await socket.send_text("done");
    };
    std::vector<std::error_code> lost;
    with_server(handler, [&](std::string url) -> Task<void> {
        SessionOptions options = hasty();
        options.on_failure = [&](std::error_code error) { lost.push_back(error); };
        WebSocketSession session(std::move(url), std::move(options));
        expect(co_await session.subscribe("a", "+a"));
        expect(co_await session.subscribe("b", "+b"));
        expect(co_await session.subscribe("c", "+c"));
        EXPECT_FALSE(session.connected());
        EXPECT_TRUE(expect(co_await session.unsubscribe("c")));
        EXPECT_FALSE(expect(co_await session.unsubscribe("c")));
        EXPECT_EQ(co_await next(session), "1");
        EXPECT_EQ(co_await next(session), "2");
        EXPECT_EQ(co_await next(session), "3");
        EXPECT_EQ(session.connections(), 3U);
        expect(co_await session.subscribe("a", "again"));
        EXPECT_EQ(co_await next(session), "done");
        expect(co_await session.close());
        EXPECT_EQ((co_await session.receive()).error(), ws::Error::closed);
    });
    EXPECT_EQ(got, (std::vector<std::string>{"+a", "+b", "+a", "+b", "+a", "+b", "again"}));
    EXPECT_EQ(lost.size(), 2U);
}

TEST(WebSocketSession, GreetsBeforeItSubscribes) {
    std::vector<std::string> got;
    const auto handler = [&](WebSocket& socket) -> Task<Result<>> {
        for (;;) {
            got.emplace_back((co_await unwrap(socket.receive())).text());
            co_await unwrap(socket.send_text("yes"));
        }
    };
    with_server(handler, [&](std::string url) -> Task<void> {
        SessionOptions options = hasty();
        WebSocketSession* made = nullptr;
        options.greet = [&](WebSocket& socket) -> Task<Result<>> {
            co_await unwrap(socket.send_text("who I am"));
            EXPECT_EQ((co_await unwrap(socket.receive())).text(), "yes");
            co_return co_await made->subscribe("b", "+b"); // while it connects
        };
        WebSocketSession session(std::move(url), std::move(options));
        made = &session;
        expect(co_await session.subscribe("a", "+a"));
        expect(co_await session.send_text("hello"));
        for (int i = 0; i < 3; ++i) {
            EXPECT_EQ(co_await next(session), "yes");
        }
        expect(co_await session.close());
    });
    EXPECT_EQ(got, (std::vector<std::string>{"who I am", "+a", "+b", "hello"}));
}

TEST(WebSocketSession, SubscribesWhileItEndsToConnect) {
    std::vector<std::string> got;
    const auto handler = [&](WebSocket& socket) -> Task<Result<>> {
        for (;;) {
            got.emplace_back((co_await unwrap(socket.receive())).text());
            co_await unwrap(socket.send_text("yes"));
        }
    };
    with_server(handler, [&](std::string url) -> Task<void> {
        sync::Event greeted;
        SessionOptions options = hasty();
        options.greet = [&](WebSocket&) -> Task<Result<>> {
            greeted.set(); // another task goes on before `connect` returns
            co_return Result<>();
        };
        WebSocketSession session(std::move(url), std::move(options));
        const auto subscribe = [&]() -> Task<Result<>> {
            co_await unwrap(greeted.wait());
            co_return co_await session.subscribe("a", "+a");
        };
        expect(co_await all(session.connect(), subscribe()));
        expect(co_await session.send_text("hello"));
        EXPECT_EQ(co_await next(session), "yes");
        expect(co_await session.close());
    });
    ASSERT_FALSE(got.empty());
    EXPECT_EQ(got.front(), "+a");
}

TEST(WebSocketSession, TriesAgainAfterATemporaryRefusalAndNotAfterAnother) {
    const auto answers = [](WebSocket& socket) -> Task<Result<>> {
        co_return co_await socket.send_text("in");
    };
    std::vector<int> statuses{503, 429};
    std::size_t refusals = 0;
    const auto check = [&](const codec::http::RequestHead&) {
        if (statuses.empty()) {
            return 0;
        }
        const int status = statuses.front();
        statuses.erase(statuses.begin());
        return status;
    };
    std::size_t failures = 0;
    with_server(answers,
                [&](std::string url) -> Task<void> {
                    SessionOptions options = hasty();
                    options.connect.on_refusal = [&](const codec::http::ResponseHead&) {
                        ++refusals;
                    };
                    options.on_failure = [&](std::error_code error) {
                        EXPECT_EQ(error, ws::HandshakeError::unexpected_status);
                        ++failures;
                    };
                    WebSocketSession session(url, options);
                    EXPECT_EQ(co_await next(session), "in");
                    EXPECT_EQ(refusals, 2U);
                    EXPECT_EQ(failures, 2U);
                    statuses = {403};
                    WebSocketSession other(url, std::move(options));
                    for (int i = 0; i < 2; ++i) {
                        EXPECT_EQ((co_await other.receive()).error(),
                                  ws::HandshakeError::unexpected_status);
                        EXPECT_EQ((co_await other.send_text("x")).error(),
                                  ws::HandshakeError::unexpected_status);
                    }
                    EXPECT_EQ(failures, 3U);
                },
                {.accept = {.check = check}});
}

TEST(WebSocketSession, TheServersCloseCodeDecides) {
    std::uint16_t code = ws::close_code::service_restart;
    const auto handler = [&](WebSocket& socket) -> Task<Result<>> {
        co_return co_await socket.close(std::exchange(code, std::uint16_t{4000}));
    };
    with_server(handler, [&](std::string url) -> Task<void> {
        WebSocketSession session(std::move(url), hasty());
        EXPECT_EQ((co_await session.receive()).error(), ws::Error::closed);
        EXPECT_EQ(session.connections(), 2U);
        EXPECT_EQ((co_await session.connect()).error(), ws::Error::closed);
    });
}

TEST(WebSocketSession, AnAddressThatCannotBeOneIsFinal) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        WebSocketSession nonsense("http://127.0.0.1/");
        EXPECT_EQ((co_await nonsense.connect()).error(), std::errc::invalid_argument);
        WebSocketSession unencrypted("wss://127.0.0.1/");
        EXPECT_EQ((co_await unencrypted.connect()).error(), std::errc::protocol_not_supported);
    };
    run(program());
}

TEST(WebSocketSession, CloseEndsEveryWait) {
    sync::Event received;
    const auto handler = [&](WebSocket& socket) -> Task<Result<>> {
        received.set();
        co_return (co_await socket.receive()).error() == ws::Error::closed
            ? Result<>()
            : failure(std::errc::io_error);
    };
    with_server(handler, [&](std::string url) -> Task<void> {
        WebSocketSession session(std::move(url), hasty());
        const auto receiving = [&]() -> Task<Result<>> {
            EXPECT_EQ((co_await session.receive()).error(), ws::Error::closed);
            co_return Result<>();
        };
        const auto closing = [&]() -> Task<Result<>> {
            co_await unwrap(received.wait());
            EXPECT_EQ((co_await session.receive()).error(), std::errc::device_or_resource_busy);
            co_return co_await session.close();
        };
        expect(co_await all(receiving(), closing()));
        EXPECT_EQ((co_await session.send_text("x")).error(), ws::Error::closed);
    });
}

TEST(WebSocketSession, CloseEndsTheWaitBeforeAnAttempt) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        std::uint16_t port = 0;
        {
            const auto listener = expect(net::TcpListener::listen(net::Endpoint::loopback(0)));
            port = expect(listener.local_endpoint()).port();
        }
        sync::Event failed;
        WebSocketSession session(
            "ws://127.0.0.1:" + std::to_string(port),
            {.first_delay = 1h, .longest_delay = 1h, .on_failure = [&](std::error_code error) {
                 EXPECT_EQ(error, std::errc::connection_refused);
                 failed.set();
             }});
        const auto sending = [&]() -> Task<Result<>> {
            EXPECT_EQ((co_await session.send_text("x")).error(), ws::Error::closed);
            co_return Result<>();
        };
        const auto closing = [&]() -> Task<Result<>> {
            co_await unwrap(failed.wait());
            co_return co_await session.close();
        };
        expect(co_await all(sending(), sending(), closing()));
    };
    run(program());
}

TEST(WebSocketSession, ACancelledAttemptLeavesTheTurnToOthers) {
    with_server(
        [](WebSocket& socket) -> Task<Result<>> { co_return co_await socket.send_text("in"); },
        [](std::string url) -> Task<void> {
            SessionOptions options = hasty();
            sync::Event begun;
            options.greet = [&](WebSocket&) -> Task<Result<>> {
                if (!begun.is_set()) {
                    begun.set();
                    sync::Event never;
                    co_return co_await never.wait();
                }
                co_return Result<>();
            };
            WebSocketSession session(std::move(url), std::move(options));
            const auto first = co_await race(session.connect(), begun.wait());
            EXPECT_EQ(first.index(), 1U);
            EXPECT_EQ(co_await next(session), "in");
        });
}

TEST(WebSocketSession, AReceiverLeavesAConnectionThatASenderHasLost) {
    sync::Event begun;
    sync::Event ended;
    int connections = 0;
    const auto handler = [&](WebSocket& socket) -> Task<Result<>> {
        if (++connections == 1) {
            std::array<std::byte, 16> some{};
            co_await unwrap(socket.next_layer().read(some));
            begun.set();
            co_return co_await ended.wait(); // and reads no more
        }
        co_return co_await socket.send(co_await unwrap(socket.receive()));
    };
    with_server(handler, [&](std::string url) -> Task<void> {
        WebSocketSession session(std::move(url), hasty());
        const auto receiving = [&]() -> Task<Result<>> {
            EXPECT_EQ(co_await next(session), "small");
            co_return Result<>();
        };
        const auto sending = [&]() -> Task<Result<>> {
            const auto first = co_await race(
                session.send_text(std::string(std::size_t{32} << 20, 'x')), begun.wait());
            EXPECT_EQ(first.index(), 1U);
            co_return co_await session.send_text("small"); // the frame before it is not whole
        };
        expect(co_await all(receiving(), sending()));
        ended.set();
        expect(co_await session.close());
    });
}

TEST(WebSocketSession, TheTimeBetweenAttemptsDoublesUpToABound) {
    ws::Backoff backoff(100ms, 350ms);
    EXPECT_EQ(backoff.next(1.0), 100ms);
    EXPECT_EQ(backoff.next(0.5), 100ms);
    EXPECT_EQ(backoff.next(1.0), 350ms);
    EXPECT_EQ(backoff.next(0.0), 0ms);
    EXPECT_EQ(backoff.next(1.0), 350ms);
    backoff.reset();
    EXPECT_EQ(backoff.next(1.0), 100ms);
    EXPECT_EQ(ws::Backoff(1h, 1s).next(1.0), 1s);
}

} // namespace
