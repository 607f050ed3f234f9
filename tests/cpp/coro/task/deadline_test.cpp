#include <penstock/task/deadline.hpp>

#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include <penstock/task/run.hpp>
#include <penstock/task/sleep.hpp>

#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::Deadline;
using penstock::Result;
using penstock::run;
using penstock::sleep_for;
using penstock::Task;
using penstock::with_deadline;
using penstock::testing::Watchdog;

TEST(Deadline, EndsABodyThatDoesNotMoveIt) {
    const Watchdog watchdog;
    const auto program = []() -> Task<Result<>> {
        co_return co_await with_deadline(
            1ms, [](Deadline&) -> Task<Result<>> { co_return co_await sleep_for(1h); });
    };
    EXPECT_EQ(run(program()).error(), std::errc::timed_out);
}

TEST(Deadline, ReturnsTheBodysValue) {
    const auto program = []() -> Task<Result<std::string>> {
        co_return co_await with_deadline(
            1h, [](Deadline&) -> Task<Result<std::string>> { co_return "value"; });
    };
    EXPECT_EQ(run(program()), "value");
}

TEST(Deadline, MovedAheadItLetsTheBodyGoOn) {
    const Watchdog watchdog;
    const auto program = []() -> Task<Result<>> {
        co_return co_await with_deadline(1ms, [](Deadline& deadline) -> Task<Result<>> {
            deadline.expire_after(1h);
            // The timer of the first deadline fires meanwhile.
            co_return co_await sleep_for(20ms);
        });
    };
    EXPECT_TRUE(run(program()));
}

TEST(Deadline, MovedAheadItStillExpires) {
    const Watchdog watchdog;
    const auto program = []() -> Task<Result<>> {
        co_return co_await with_deadline(1ms, [](Deadline& deadline) -> Task<Result<>> {
            deadline.expire_after(10ms);
            co_return co_await sleep_for(1h);
        });
    };
    EXPECT_EQ(run(program()).error(), std::errc::timed_out);
}

TEST(Deadline, MovedBackItExpiresEarlier) {
    const Watchdog watchdog;
    const auto program = []() -> Task<Result<>> {
        co_return co_await with_deadline(1h, [](Deadline& deadline) -> Task<Result<>> {
            deadline.expire_at(std::chrono::steady_clock::now());
            co_return co_await sleep_for(1h);
        });
    };
    EXPECT_EQ(run(program()).error(), std::errc::timed_out);
}

TEST(Deadline, ClearedItNeverExpiresUntilItIsSetAgain) {
    const Watchdog watchdog;
    const auto program = []() -> Task<Result<>> {
        co_return co_await with_deadline(1ms, [](Deadline& deadline) -> Task<Result<>> {
            deadline.clear();
            if (const Result<> slept = co_await sleep_for(20ms); !slept) {
                co_return slept;
            }
            deadline.expire_after(1ms);
            co_return co_await sleep_for(1h);
        });
    };
    EXPECT_EQ(run(program()).error(), std::errc::timed_out);
}

TEST(Deadline, MayBeMovedByABodyThatIsNoCoroutine) {
    const Watchdog watchdog;
    struct Body {
        static Task<Result<>> sleeps() { co_return co_await sleep_for(1h); }
        Task<Result<>> operator()(Deadline& deadline) const {
            deadline.expire_after(1ms);
            return sleeps();
        }
    };
    const auto program = []() -> Task<Result<>> { co_return co_await with_deadline(1h, Body()); };
    EXPECT_EQ(run(program()).error(), std::errc::timed_out);
}

} // namespace
