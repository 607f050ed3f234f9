// Every public function that takes a duration, with those that have no place on a clock. Short and
// negative ones and NaN are no time, long ones are for ever, and none is undefined (the sanitizers
// watch).

#include <penstock/http.hpp>
#include <penstock/http/client.hpp>
#include <penstock/penstock.hpp>
#include <penstock/ws.hpp>

#include <chrono>
#include <cmath>
#include <limits>
#include <ratio>
#include <string>
#include <system_error>

#include <gtest/gtest.h>

#include "coro/support/logs.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace penstock;
using penstock::testing::expect;
using penstock::testing::turns;
using penstock::testing::Watchdog;
using std::chrono::duration;

/// Calls `check(duration, is_for_ever)` with the durations of all kinds.
template <typename Check> void with_odd_durations(Check check) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    check(std::chrono::nanoseconds::min(), false);
    check(std::chrono::hours::min(), false);
    check(std::chrono::milliseconds(-5), false);
    check(std::chrono::seconds(0), false);
    check(std::chrono::nanoseconds::max(), true);
    check(std::chrono::milliseconds::max(), true);
    check(std::chrono::hours::max(), true);
    check(std::chrono::years::max(), true);
    check(duration<double>(std::nan("")), false);
    check(duration<double>(-infinity), false);
    check(duration<double>(-1e300), false);
    check(duration<double>(infinity), true);
    check(duration<double>(1e300), true);
    check(duration<double>(std::nextafter(9223372036.854775807, 0.0)), true);
    check(duration<float>(std::numeric_limits<float>::quiet_NaN()), false);
    check(duration<float>(std::nextafter(9223372036.854775807F, 0.0F)), true);
    check(duration<float, std::nano>(std::nextafter(0x1p63F, 0.0F)), true);
    check(duration<long double>(std::numeric_limits<long double>::max()), true);
}

Task<Result<>> for_ever() {
    co_return co_await sleep_for(std::chrono::hours::max());
}

/// Cancels `task` after two iterations, and returns whether that was what ended it.
template <typename T> Task<bool> ends_when_cancelled(Task<T> task) {
    Canceller canceller;
    bool ended_before = false;
    const auto cancel = [&]() -> Task<> {
        co_await turns(4);
        if (!ended_before) {
            canceller.cancel();
        }
    };
    const auto watched = [&]() -> Task<> {
        (void)co_await cancellable(canceller, std::move(task));
        ended_before = !canceller.cancelled();
    };
    (void)co_await all(watched(), cancel());
    co_return !ended_before;
}

TEST(Durations, NoTimeAndForEverAreDefinedForAllClocks) {
    const Watchdog watchdog;
    with_odd_durations([](auto time, bool for_ever_time) {
        SCOPED_TRACE(static_cast<double>(time.count()));
        const auto program = [&]() -> Task<> {
            const auto sleeps = [&]() -> Task<Result<>> { co_return co_await sleep_for(time); };
            EXPECT_EQ(co_await ends_when_cancelled(sleeps()), for_ever_time);
            EXPECT_EQ(co_await ends_when_cancelled(timeout(time, for_ever())), for_ever_time);
            const std::chrono::time_point<std::chrono::steady_clock, decltype(time)> when(time);
            const auto sleeps_until = [&]() -> Task<Result<>> {
                co_return co_await sleep_until(when);
            };
            EXPECT_EQ(co_await ends_when_cancelled(sleeps_until()), for_ever_time);
            EXPECT_EQ(co_await ends_when_cancelled(timeout_at(when, for_ever())), for_ever_time);
            EXPECT_EQ(co_await ends_when_cancelled(with_deadline(
                          time, [](Deadline&) -> Task<Result<>> { return for_ever(); })),
                      for_ever_time);
            EXPECT_EQ(co_await ends_when_cancelled(
                          with_deadline(std::chrono::hours(1),
                                        [&](Deadline& deadline) -> Task<Result<>> {
                                            deadline.expire_after(time);
                                            return for_ever();
                                        })),
                      for_ever_time);
            const auto drains = [&]() -> Task<Result<>> {
                co_return co_await with_scope([&](Scope& scope) -> Task<Result<>> {
                    scope.spawn(for_ever());
                    co_return co_await scope.drain(time);
                });
            };
            EXPECT_EQ(co_await ends_when_cancelled(drains()), for_ever_time);
        };
        run(program());
    });
}

TEST(Durations, ServersAndClientsTakeThem) {
    const Watchdog watchdog;
    using std::chrono::milliseconds;
    for (const milliseconds time :
         {milliseconds::min(), milliseconds(-1), milliseconds(0), milliseconds::max()}) {
        SCOPED_TRACE(time.count());
        const auto program = [&]() -> Task<> {
            // A port where nobody listens: the time-outs must not matter.
            const auto closed = expect(penstock::testing::listen_on_loopback().local_endpoint());
            const std::string url = "http://127.0.0.1:" + std::to_string(closed.port()) + "/";
            const http::ClientTimeouts limits{.connect = time, .whole = time, .idle = time};
            if (time < milliseconds(0)) {
                EXPECT_THROW(http::Client({.timeouts = limits}), std::invalid_argument);
            } else {
                http::Client client(
                    {.idle_connection_age = std::chrono::duration_cast<std::chrono::seconds>(time),
                     .timeouts = limits});
                EXPECT_EQ((co_await client.get(url)).error(),
                          http::ClientError::connection_refused);
            }

            http::Server server;
            server.stop(time); // before it serves
            EXPECT_TRUE(co_await server.serve(penstock::testing::listen_on_loopback()));

            auto pair = co_await penstock::testing::connect_pair();
            const Result<> kept = pair.near.keep_alive(
                std::chrono::duration_cast<std::chrono::seconds>(time), std::chrono::seconds(1), 1);
            EXPECT_EQ(kept.error(), std::errc::invalid_argument);
        };
        run(program());
    }
}

} // namespace
