// Pings to a silent peer.

#include <penstock/ws/web_socket.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include <penstock/net/tcp_stream.hpp>
#include <penstock/stream/any_stream.hpp>
#include <penstock/stream/memory_stream.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/task/yield.hpp>

#include "coro/support/tcp_pair.hpp"
#include "coro/ws/request.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::AnyStream;
using penstock::MemoryStream;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::unwrap;
using penstock::net::TcpStream;
using penstock::testing::connect_pair;
using penstock::testing::expect;
using penstock::testing::TcpPair;
using penstock::testing::Watchdog;
using penstock::ws::BasicWebSocket;
using penstock::ws::Limits;
using penstock::ws::WebSocket;

constexpr Limits impatient{.ping_interval = 2ms, .ping_timeout = 2ms};
constexpr Limits quick{.ping_interval = 1ms, .ping_timeout = 1h};

struct Raw {
    AnyStream client;
    WebSocket server;
};

Task<Raw> open_raw(bool over_tcp, Limits limits) {
    AnyStream near;
    AnyStream far;
    if (over_tcp) {
        TcpPair pair = co_await connect_pair();
        near = std::move(pair.near);
        far = std::move(pair.far);
    } else {
        auto [one, other] = MemoryStream::pair();
        near = AnyStream(std::move(one));
        far = AnyStream(std::move(other));
    }
    expect(co_await near.write_all(penstock::testing::request));
    WebSocket server = expect(co_await WebSocket::accept(std::move(far), {.limits = limits}));
    std::array<char, 1024> head{};
    EXPECT_GT(expect(co_await near.read(head)), 0U);
    co_return Raw{std::move(near), std::move(server)};
}

Task<Result<std::string>> read_exactly(AnyStream& stream, std::size_t size) {
    std::string text;
    while (text.size() < size) {
        std::array<char, 256> some{};
        const std::size_t count = co_await unwrap(stream.read(some));
        if (count == 0) {
            break;
        }
        text.append(some.data(), count);
    }
    co_return text;
}

TEST(WebSocketKeepAlive, ASilentPeerIsPingedAndGivenUp) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        for (const bool over_tcp : {true, false}) {
            Raw raw = co_await open_raw(over_tcp, impatient);
            EXPECT_EQ((co_await raw.server.receive()).error(), std::errc::timed_out);
            EXPECT_EQ((co_await raw.server.receive()).error(), std::errc::timed_out);
            EXPECT_EQ((co_await raw.server.send_text("x")).error(), penstock::ws::Error::closed);
            const std::string expected =
                std::string("\x89\x00\x88\x15\x03\xf3", 6) + "no answer to a ping";
            EXPECT_EQ(expect(co_await read_exactly(raw.client, 1000)), expected);
        }
    };
    run(program());
}

TEST(WebSocketKeepAlive, AnIntervalOfNoTimeOrLessMeansNoPings) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        for (const bool over_tcp : {true, false}) {
            for (const std::chrono::milliseconds time :
                 {0ms, -1ms, std::chrono::milliseconds::min()}) {
                Raw raw =
                    co_await open_raw(over_tcp, {.ping_interval = time, .ping_timeout = time});
                const auto sending = [&]() -> Task<Result<>> {
                    for (int i = 0; i < 5; ++i) { // the server waits
                        (void)co_await penstock::yield();
                    }
                    co_return co_await raw.client.write_all(
                        std::string("\x81\x82\x00\x00\x00\x00hi", 8));
                };
                const auto receiving = [&]() -> Task<Result<>> {
                    EXPECT_EQ((co_await unwrap(raw.server.receive())).text(), "hi");
                    co_return Result<>();
                };
                expect(co_await penstock::all(sending(), receiving()));
            }
        }
    };
    run(program());
}

// Over TCP: SlowPeers.WithPingsTheTimeForAnAnswerLimitsAPongToo.
TEST(WebSocketKeepAlive,
     APongToAPeerThatReadsNothingHasTheTimeForAnAnswerOverAStreamWithoutASocket) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        auto [one, other] = MemoryStream::pair(256);
        AnyStream client(std::move(one));
        AnyStream far(std::move(other));
        expect(co_await client.write_all(penstock::testing::request));
        const auto pinging = [&]() -> Task<Result<>> {
            // A ping with the mask 0.
            const std::string ping =
                std::string("\x89\xe4\x00\x00\x00\x00", 6) + std::string(100, 'x');
            Result<> written;
            while (written) {
                written = co_await client.write_all(ping);
            }
            co_return Result<>();
        };
        const auto receiving = [&]() -> Task<Result<>> {
            WebSocket server = co_await unwrap(WebSocket::accept(
                std::move(far), {.limits = {.ping_interval = 1h, .ping_timeout = 2ms}}));
            const auto message = co_await penstock::timeout(Limits().write / 2, server.receive());
            EXPECT_EQ(message.error(), std::errc::timed_out);
            EXPECT_EQ(server.close_code(), penstock::ws::close_code::abnormal);
            co_return Result<>(); // the stream ends
        };
        expect(co_await penstock::all(pinging(), receiving()));
    };
    run(program());
}

TEST(WebSocketKeepAlive, APeerThatAnswersIsPingedAgain) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        for (const bool over_tcp : {true, false}) {
            Raw raw = co_await open_raw(over_tcp, quick);
            const auto answering = [&]() -> Task<Result<>> {
                for (int i = 0; i < 5; ++i) {
                    EXPECT_EQ(co_await unwrap(read_exactly(raw.client, 2)),
                              std::string("\x89\x00", 2));
                    // A pong with the mask 0.
                    co_await unwrap(
                        raw.client.write_all(std::string("\x8a\x80\x00\x00\x00\x00", 6)));
                }
                co_return co_await raw.client.write_all(
                    std::string("\x81\x82\x00\x00\x00\x00hi", 8));
            };
            const auto receiving = [&]() -> Task<Result<>> {
                EXPECT_EQ((co_await unwrap(raw.server.receive())).text(), "hi");
                co_return Result<>();
            };
            expect(co_await penstock::all(answering(), receiving()));
        }
    };
    run(program());
}

TEST(WebSocketKeepAlive, BothEndsKeepEachOtherAlive) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        auto opened = co_await penstock::all(
            WebSocket::connect(std::move(pair.near), "h", "/", {.limits = quick}),
            WebSocket::accept(std::move(pair.far), {.limits = quick}));
        auto [client, server] = expect(std::move(opened));
        const auto wait = [](WebSocket& socket) -> Task<Result<>> {
            EXPECT_EQ((co_await penstock::timeout(30ms, socket.receive())).error(),
                      std::errc::timed_out);
            EXPECT_EQ(socket.close_code(), 0);
            co_return Result<>();
        };
        expect(co_await penstock::all(wait(client), wait(server)));
        expect(co_await client.send_text("still open"));
        EXPECT_EQ(expect(co_await server.receive()).text(), "still open");
    };
    run(program());
}

TEST(WebSocketKeepAlive, ZeroTurnsItOff) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Raw raw = co_await open_raw(true, {.ping_interval = 0ms});
        EXPECT_EQ((co_await penstock::timeout(20ms, raw.server.receive())).error(),
                  std::errc::timed_out);
        expect(co_await raw.server.send_text("first"));
        EXPECT_EQ(expect(co_await read_exactly(raw.client, 7)), "\x81\x05"
                                                                "first");
    };
    run(program());
}

TEST(WebSocketKeepAlive, APeerThatOnlyAnswersPingsIsIdle) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        for (const bool over_tcp : {true, false}) {
            Raw raw = co_await open_raw(over_tcp,
                                        {.ping_interval = 2ms, .ping_timeout = 1h, .idle = 30ms});
            const auto answering = [&]() -> Task<Result<>> {
                std::string got;
                std::array<char, 256> some{};
                while (!got.ends_with("no message for too long")) {
                    const std::size_t count = co_await unwrap(raw.client.read(some));
                    if (count == 0) {
                        break;
                    }
                    const std::string_view part(some.data(), count);
                    got += part;
                    if (part.starts_with("\x89")) {
                        co_await unwrap(
                            raw.client.write_all(std::string("\x8a\x80\x00\x00\x00\x00", 6)));
                    }
                }
                EXPECT_TRUE(got.starts_with("\x89")); // it was pinged before
                EXPECT_TRUE(got.ends_with("\x88\x19\x03\xe9no message for too long")) << got;
                co_return Result<>();
            };
            const auto receiving = [&]() -> Task<Result<>> {
                EXPECT_EQ((co_await raw.server.receive()).error(), std::errc::timed_out);
                EXPECT_EQ(raw.server.close_code(), penstock::ws::close_code::abnormal);
                co_return Result<>();
            };
            expect(co_await penstock::all(answering(), receiving()));
        }
    };
    run(program());
}

/// Whether a connection gets 20 messages, of which each comes well within the idle time, and all of
/// them take longer.
Task<bool> gets_twenty(bool by_parts) {
    Raw raw = co_await open_raw(true, {.ping_interval = 0ms, .idle = 100ms});
    const auto sending = [&]() -> Task<Result<>> {
        for (int i = 0; i < 20; ++i) {
            (void)co_await penstock::sleep_for(6ms);
            co_await unwrap(raw.client.write_all(std::string("\x81\x82\x00\x00\x00\x00hi", 8)));
        }
        co_return Result<>();
    };
    int received = 0;
    const auto receiving = [&]() -> Task<Result<>> {
        for (; received < 20; ++received) {
            if (by_parts) {
                co_await unwrap(raw.server.receive_part());
            } else {
                co_await unwrap(raw.server.receive());
            }
        }
        co_return Result<>();
    };
    (void)co_await penstock::all(sending(), receiving());
    co_return received == 20;
}

TEST(WebSocketKeepAlive, AMessageBeginsTheIdleTimeAnew) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        for (const bool by_parts : {false, true}) {
            bool done = false;
            for (int attempt = 0; attempt < 10 && !done; ++attempt) { // the machine may halt
                done = co_await gets_twenty(by_parts);
            }
            EXPECT_TRUE(done);
        }
    };
    run(program());
}

TEST(WebSocketKeepAlive, TheCloseOfAnIdleConnectionHasItsOwnTime) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Raw raw = co_await open_raw(true, {.close = 1h, .ping_interval = 0ms, .idle = 1ms});
        const auto closing = [&]() -> Task<Result<>> { co_return co_await raw.server.close(); };
        const auto answering = [&]() -> Task<Result<>> {
            EXPECT_EQ(co_await unwrap(read_exactly(raw.client, 4)), "\x88\x02\x03\xe8");
            (void)co_await penstock::sleep_for(20ms);
            co_return co_await raw.client.write_all(
                std::string("\x88\x82\x00\x00\x00\x00\x03\xe8", 8));
        };
        expect(co_await penstock::all(closing(), answering()));
    };
    run(program());
}

} // namespace
