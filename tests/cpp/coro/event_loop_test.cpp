#include <penstock/event_loop.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/sync/event.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/sleep.hpp>

#include "coro/support/logs.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::EventLoop;
using penstock::run;
using penstock::Scope;
using penstock::Task;
using penstock::sync::Event;
using penstock::testing::expect;
using penstock::testing::Log;
using penstock::testing::turns;
using penstock::testing::Watchdog;

TEST(EventLoop, RunsOneTaskAfterAnother) {
    EventLoop loop;
    const auto number = [](int value) -> Task<int> { co_return value; };
    EXPECT_EQ(loop.run(number(1)), 1);
    EXPECT_EQ(loop.run(number(2)), 2);
}

TEST(EventLoop, RefusesToRunInsideOfARunningLoop) {
    const auto inner = []() -> Task<> { co_return; };
    const auto outer = [&]() -> Task<> {
        EXPECT_THROW(run(inner()), std::logic_error);
        co_return;
    };
    run(outer());
}

TEST(EventLoop, IsCurrentOnItsThreadWhileItRuns) {
    EXPECT_EQ(EventLoop::current_or_null(), nullptr);
    EXPECT_THROW((void)EventLoop::current(), std::logic_error);
    EventLoop loop;
    const auto program = [&]() -> Task<> {
        EXPECT_EQ(&EventLoop::current(), &loop);
        co_return;
    };
    loop.run(program());
    EXPECT_EQ(EventLoop::current_or_null(), nullptr);
}

TEST(EventLoop, RunsFunctionsPostedBeforeItRan) {
    const Watchdog watchdog;
    EventLoop loop;
    Event posted;
    loop.post([&] { posted.set(); });
    const auto program = [&]() -> Task<> { expect(co_await posted.wait()); };
    loop.run(program());
    EXPECT_TRUE(posted.is_set());
}

TEST(EventLoop, RunsOtherThreadsPostsInOrderOnItsOwnThread) {
    const Watchdog watchdog;
    constexpr int count = 2000;
    EventLoop loop;
    Event done;
    std::vector<int> order;
    std::thread poster([&] {
        for (int i = 0; i < count; ++i) {
            loop.post([&, i] {
                EXPECT_EQ(EventLoop::current_or_null(), &loop);
                order.push_back(i);
            });
        }
        loop.post([&] { done.set(); });
    });
    const auto program = [&]() -> Task<> { expect(co_await done.wait()); };
    loop.run(program());
    poster.join();
    ASSERT_EQ(order.size(), static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
        EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
    }
}

TEST(EventLoop, DestroysPostedFunctionsThatNeverRan) {
    auto watched = std::make_shared<int>(1);
    {
        EventLoop loop;
        loop.post([watched] { FAIL() << "the loop does not run"; });
        EXPECT_EQ(watched.use_count(), 2);
    }
    EXPECT_EQ(watched.use_count(), 1);
}

TEST(EventLoop, MayEndWhileTheThreadThatWokeItIsStillPosting) {
    const Watchdog watchdog;
    for (int i = 0; i < 300; ++i) {
        Event event;
        std::thread setter;
        const auto program = [&]() -> Task<> {
            setter = std::thread([&] { event.set(); });
            expect(co_await event.wait());
        };
        run(program()); // its loop is gone when this returns
        setter.join();
    }
}

TEST(EventLoop, ATaskThatNeverHasToWaitDoesNotStarveTheOthers) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Event stop;
        Event always;
        always.set();
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            const auto stop_it = [](Event& event) -> Task<> {
                event.set();
                co_return;
            };
            scope.spawn(stop_it(stop));
            while (!stop.is_set()) {
                expect(co_await always.wait()); // ready each time
            }
        });
    };
    run(program());
}

Task<Log> order_of(int tasks) {
    Log log;
    const auto note = [](Log& into, std::string name) -> Task<> {
        co_await turns(1);
        into.push_back(std::move(name));
    };
    (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
        for (int i = 0; i < tasks; ++i) {
            scope.spawn(note(log, std::to_string(i)));
        }
        co_return;
    });
    co_return log;
}

Log order_with_seed(std::uint64_t seed) {
    EventLoop loop(EventLoop::Options{.shuffle_seed = seed});
    return loop.run(order_of(8));
}

TEST(EventLoop, RunsTasksInOrderOfReadiness) {
    EXPECT_EQ(run(order_of(4)), (Log{"0", "1", "2", "3"}));
}

TEST(EventLoop, ASeedShufflesTheOrderAndRepeatsIt) {
    const Log straight = run(order_of(8));
    bool differs = false;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
        const Log shuffled = order_with_seed(seed);
        EXPECT_EQ(shuffled, order_with_seed(seed));
        differs |= shuffled != straight;
        Log sorted = shuffled;
        std::ranges::sort(sorted);
        EXPECT_EQ(sorted, straight) << "each task runs once";
    }
    EXPECT_TRUE(differs);
}

TEST(EventLoop, AShuffleFindsADependencyOnTheOrder) {
    const auto racy = [](int& last) -> Task<> {
        const auto assign = [](int& into, int value) -> Task<> {
            co_await turns(1);
            into = value;
        };
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(assign(last, 1));
            scope.spawn(assign(last, 2));
            co_return;
        });
    };
    std::vector<int> seen;
    for (std::uint64_t seed = 0; seed < 16; ++seed) {
        EventLoop loop(EventLoop::Options{.shuffle_seed = seed});
        int last = 0;
        loop.run(racy(last));
        seen.push_back(last);
    }
    EXPECT_NE(std::ranges::find(seen, 1), seen.end());
    EXPECT_NE(std::ranges::find(seen, 2), seen.end());
}

TEST(EventLoop, AFunctionThatPostsItselfAgainDoesNotStarveTheRest) {
    const Watchdog watchdog;
    EventLoop loop;
    bool slept = false;
    std::function<void()> again = [&] {
        if (!slept) {
            loop.post(again);
        }
    };
    const auto program = [&]() -> Task<> {
        loop.post(again);
        expect(co_await penstock::sleep_for(std::chrono::milliseconds(1)));
        slept = true;
    };
    loop.run(program());
    EXPECT_TRUE(slept);
}

} // namespace
