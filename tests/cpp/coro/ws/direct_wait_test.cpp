// A receive that waits without a task: its timer, pings meanwhile, its cancellation, and what it
// leaves behind.

#include <penstock/ws/web_socket.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/codec/websocket/frame.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/stream/read_all.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/race.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/task/unwrap.hpp>

#include "coro/support/logs.hpp"
#include "coro/support/tcp_pair.hpp"
#include "coro/ws/frames.hpp"
#include "coro/ws/raw_connection.hpp"
#include "support/allocated_bytes.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::Bytes;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::unwrap;
using penstock::codec::websocket::Opcode;
using penstock::testing::expect;
using penstock::testing::frame;
using penstock::testing::open_raw_connection;
using penstock::testing::plain_frame;
using penstock::testing::RawConnection;
using penstock::testing::read_text;
using penstock::testing::receive_text;
using penstock::testing::Received;
using penstock::testing::receives_in_tasks;
using penstock::testing::store;
using penstock::testing::timers;
using penstock::testing::turns;
using penstock::testing::until_receives_in_tasks;
using penstock::testing::Watchdog;
using penstock::ws::WebSocket;

/// Input after which a receive goes on in a task and waits there.
std::vector<std::string> beginnings() {
    return {frame(Opcode::text, "h", false), frame(Opcode::text, "half").substr(0, 7),
            frame(Opcode::text, "half").substr(0, 1), frame(Opcode::ping, "p").substr(0, 3)};
}

TEST(WebSocketDirect, NoTimerIsLeftWhenAReceiveGoesOnInATask) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        for (const std::string& beginning : beginnings()) {
            RawConnection raw = co_await open_raw_connection();
            Received outcome;
            const auto disturbing = [&]() -> Task<Result<>> {
                co_await turns(2);
                EXPECT_EQ(timers(), 1U);
                co_await unwrap(raw.client.write_all(beginning));
                co_await until_receives_in_tasks(1);
                EXPECT_EQ(timers(), 1U) << "the one of the task";
                raw.server.next_layer().close();
                co_return Result<>();
            };
            expect(co_await penstock::all(store(raw.server, outcome), disturbing()));
            EXPECT_EQ(outcome.error, std::errc::operation_canceled);
            EXPECT_EQ(timers(), 0U);
        }
    };
    run(program());
}

TEST(WebSocketDirect, AStreamMayCloseWhileASilentPeerIsPinged) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        RawConnection raw =
            co_await open_raw_connection({.ping_interval = 1ms, .ping_timeout = 1h});
        Received outcome;
        const auto disturbing = [&]() -> Task<Result<>> {
            EXPECT_EQ(co_await unwrap(read_text(raw.client, 2)), plain_frame(Opcode::ping, ""));
            EXPECT_EQ(receives_in_tasks(), 0U);
            EXPECT_EQ(timers(), 1U);
            raw.server.next_layer().close();
            co_return Result<>();
        };
        expect(co_await penstock::all(store(raw.server, outcome), disturbing()));
        EXPECT_EQ(outcome.error, std::errc::operation_canceled);
        EXPECT_EQ(timers(), 0U);
    };
    run(program());
}

TEST(WebSocketDirect, AMessageAnswersAPing) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        RawConnection raw =
            co_await open_raw_connection({.ping_interval = 1ms, .ping_timeout = 1h});
        const auto answering = [&]() -> Task<Result<>> {
            for (int i = 0; i < 3; ++i) {
                EXPECT_EQ(co_await unwrap(read_text(raw.client, 2)), plain_frame(Opcode::ping, ""));
                co_await unwrap(raw.client.write_all(frame(Opcode::text, "here")));
            }
            co_return Result<>();
        };
        const auto receiving = [&]() -> Task<Result<>> {
            for (int i = 0; i < 3; ++i) {
                EXPECT_EQ(co_await unwrap(receive_text(raw.server)), "here");
            }
            co_return Result<>();
        };
        expect(co_await penstock::all(answering(), receiving()));
        EXPECT_EQ(timers(), 0U);
    };
    run(program());
}

TEST(WebSocketDirect, AConnectionThatWaitsKeepsNothingOfAPing) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        constexpr std::size_t count = 20;
        std::vector<RawConnection> raws;
        for (std::size_t i = 0; i < count; ++i) {
            raws.push_back(co_await open_raw_connection());
        }
        const auto receive = [](WebSocket& socket) -> Task<Result<>> {
            EXPECT_EQ((co_await socket.receive()).error(), std::errc::operation_canceled);
            co_return Result<>();
        };
        (void)co_await penstock::with_scope([&](penstock::Scope& scope) -> Task<Result<>> {
            for (RawConnection& raw : raws) {
                scope.spawn(receive(raw.server));
            }
            const auto ping = [](RawConnection& raw) -> Task<Result<>> {
                co_await unwrap(raw.client.write_all(frame(Opcode::ping, "p")));
                EXPECT_EQ(co_await unwrap(read_text(raw.client, 3)),
                          plain_frame(Opcode::pong, "p"));
                co_return Result<>();
            };
            co_await unwrap(ping(raws.front())); // what all connections share is allocated now
            co_await turns(4);
            const std::size_t before = penstock::testing::allocated_bytes();
            for (std::size_t i = 1; i < count; ++i) {
                co_await unwrap(ping(raws[i]));
            }
            co_await turns(4);
            EXPECT_LT(penstock::testing::allocated_bytes(), before + count * 100);
            EXPECT_EQ(receives_in_tasks(), 0U);
            scope.cancel();
            co_return Result<>();
        });
    };
    run(program());
}

TEST(WebSocketDirect, AQuietConnectionHasNoTaskForPingsAndPongs) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        RawConnection raw =
            co_await open_raw_connection({.ping_interval = 1ms, .ping_timeout = 1h});
        const std::string whole = frame(Opcode::text, "one") + frame(Opcode::ping, "behind");
        const auto talking = [&]() -> Task<Result<>> {
            const std::string asked = plain_frame(Opcode::ping, "");
            const std::string pong = frame(Opcode::pong, "");
            for (int i = 0; i < 3; ++i) { // the second and third follow an answer
                EXPECT_EQ(co_await unwrap(read_text(raw.client, 2)), asked);
                EXPECT_EQ(receives_in_tasks(), 0U);
                EXPECT_EQ(timers(), 1U);
                co_await unwrap(raw.client.write_all(pong));
            }
            // Also in what has come with a message.
            EXPECT_EQ(co_await unwrap(read_text(raw.client, 2)), asked);
            co_await unwrap(raw.client.write_all(whole));
            EXPECT_EQ(co_await unwrap(read_text(raw.client, 8)),
                      plain_frame(Opcode::pong, "behind"));
            EXPECT_EQ(co_await unwrap(read_text(raw.client, 2)), asked);
            EXPECT_EQ(receives_in_tasks(), 0U);
            co_return co_await raw.client.write_all(pong + frame(Opcode::pong, "again") +
                                                    frame(Opcode::text, "two"));
        };
        const auto receiving = [&]() -> Task<Result<>> {
            EXPECT_EQ(co_await unwrap(receive_text(raw.server)), "one");
            EXPECT_EQ(co_await unwrap(receive_text(raw.server)), "two");
            co_return Result<>();
        };
        expect(co_await penstock::all(receiving(), talking()));
        EXPECT_EQ(timers(), 0U);
    };
    run(program());
}

TEST(WebSocketDirect, EachOfManyPingsIsAnswered) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        constexpr std::size_t count = 1'000;
        RawConnection raw = co_await open_raw_connection();
        std::string pings;
        std::string pongs;
        for (std::size_t i = 0; i < count; ++i) {
            pings += frame(Opcode::ping, std::to_string(i));
            pongs += plain_frame(Opcode::pong, std::to_string(i));
        }
        const auto asking = [&]() -> Task<Result<>> {
            co_await unwrap(raw.client.write_all(pings + frame(Opcode::text, "end")));
            EXPECT_EQ(co_await unwrap(read_text(raw.client, pongs.size())), pongs);
            co_return Result<>();
        };
        const auto receiving = [&]() -> Task<Result<>> {
            EXPECT_EQ(co_await unwrap(receive_text(raw.server)), "end");
            co_return Result<>();
        };
        expect(co_await penstock::all(receiving(), asking()));
    };
    run(program());
}

TEST(WebSocketDirect, ACancelledReceiveLosesNothing) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        RawConnection raw = co_await open_raw_connection();
        EXPECT_EQ((co_await penstock::timeout(1ms, raw.server.receive())).error(),
                  std::errc::timed_out);
        EXPECT_EQ(timers(), 0U);
        const std::string bytes = frame(Opcode::text, "first ", false) + frame(Opcode::ping, "p") +
                                  frame(Opcode::continuation, "second");
        const auto turns_then_end = []() -> Task<Result<>> {
            co_await turns(4);
            co_return Result<>();
        };
        std::string received;
        for (const char& byte : bytes) { // each arrives alone, and a receive is cancelled after it
            expect(co_await raw.client.write_all(Bytes(&byte, 1)));
            auto outcome = co_await penstock::race(raw.server.receive(), turns_then_end());
            if (auto* message = std::get_if<0>(&outcome); message != nullptr && *message) {
                received = (*message)->text();
            }
            EXPECT_EQ(timers(), 0U);
        }
        if (received.empty()) {
            received = expect(co_await receive_text(raw.server));
        }
        EXPECT_EQ(received, "first second");
        expect(co_await raw.server.send_text("not broken"));
        raw.server.next_layer().close();
        EXPECT_EQ(expect(co_await penstock::read_all_text(raw.client)),
                  plain_frame(Opcode::pong, "p") + plain_frame(Opcode::text, "not broken"));
    };
    run(program());
}

TEST(WebSocketDirect, ACancelledTaskReceivesWhatIsThereAndSendsNothing) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        RawConnection raw = co_await open_raw_connection();
        expect(co_await raw.client.write_all(frame(Opcode::text, "1") + frame(Opcode::text, "2")));
        EXPECT_EQ(expect(co_await receive_text(raw.server)), "1");
        const auto cancelled = [&]() -> Task<Result<>> {
            (void)co_await penstock::sleep_for(1h);
            EXPECT_EQ(co_await unwrap(receive_text(raw.server)), "2");
            EXPECT_EQ((co_await raw.server.receive()).error(), std::errc::operation_canceled);
            EXPECT_EQ((co_await raw.server.send_text("x")).error(), std::errc::operation_canceled);
            co_return Result<>();
        };
        (void)co_await penstock::timeout(1ms, cancelled());
        expect(co_await raw.server.send_text("y"));
        EXPECT_EQ(expect(co_await read_text(raw.client, 3)), plain_frame(Opcode::text, "y"));
    };
    run(program());
}

} // namespace
