#include <penstock/task/concurrent.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <ranges>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/sync/channel_ends.hpp>
#include <penstock/task/all_settled.hpp>
#include <penstock/task/canceller.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/task_context.hpp>

#include "coro/support/steps.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::all_settled;
using penstock::Canceller;
using penstock::Channel;
using penstock::failure;
using penstock::for_each_concurrent;
using penstock::make_channel;
using penstock::map_concurrent;
using penstock::Result;
using penstock::run;
using penstock::Sender;
using penstock::Task;
using penstock::testing::Log;
using penstock::testing::succeeds_after;
using penstock::testing::turns;
using penstock::testing::Watchdog;

/// The number of calls that run at the same time.
struct Load {
    int now = 0;
    int most = 0;

    Task<Result<>> call(int turns_taken) {
        most = std::max(most, ++now);
        co_await turns(turns_taken);
        --now;
        co_return Result<>();
    }
};

TEST(ForEachConcurrent, CallsForEachItemWithinTheLimit) {
    const Watchdog watchdog;
    Load load;
    std::vector<int> seen;
    const auto program = [&]() -> Task<Result<>> {
        co_return co_await for_each_concurrent(std::views::iota(0, 20), 3, [&](int item) {
            seen.push_back(item);
            return load.call(item % 5);
        });
    };
    EXPECT_TRUE(run(program()));
    EXPECT_EQ(load.most, 3);
    EXPECT_EQ(load.now, 0);
    std::vector<int> all(20);
    std::ranges::copy(std::views::iota(0, 20), all.begin());
    EXPECT_EQ(seen, all); // calls start in order
}

TEST(ForEachConcurrent, PassesItemsOfAListByReference) {
    std::vector<std::unique_ptr<int>> items;
    items.push_back(std::make_unique<int>(1));
    items.push_back(std::make_unique<int>(2));
    const auto program = [&]() -> Task<Result<>> {
        co_return co_await for_each_concurrent(items, 8,
                                               [](std::unique_ptr<int>& item) -> Task<Result<>> {
                                                   co_await turns(1);
                                                   *item *= 10;
                                                   co_return Result<>();
                                               });
    };
    EXPECT_TRUE(run(program()));
    EXPECT_EQ(*items[0] + *items[1], 30);
}

TEST(ForEachConcurrent, TakesARangeThatCanBeReadOnce) {
    std::istringstream words("one two three");
    std::vector<std::string> seen;
    const auto program = [&]() -> Task<Result<>> {
        co_return co_await for_each_concurrent(std::views::istream<std::string>(words), 2,
                                               [&](std::string word) -> Task<> {
                                                   co_await turns(1);
                                                   seen.push_back(std::move(word));
                                               });
    };
    EXPECT_TRUE(run(program()));
    std::ranges::sort(seen);
    EXPECT_EQ(seen, (std::vector<std::string>{"one", "three", "two"}));
}

TEST(ForEachConcurrent, TheFirstErrorCancelsTheRest) {
    const Watchdog watchdog;
    Log log;
    int calls = 0;
    const auto program = [&]() -> Task<Result<>> {
        co_return co_await for_each_concurrent(
            std::views::iota(0, 100), 2, [&](int item) -> Task<Result<>> {
                ++calls;
                if (item == 1) {
                    co_await turns(2);
                    co_return failure(std::errc::io_error);
                }
                (void)co_await penstock::testing::waits_for_ever(log, "cancelled");
                co_return failure(std::errc::operation_canceled);
            });
    };
    EXPECT_EQ(run(program()).error(), std::errc::io_error);
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(log, (Log{"cancelled"}));
}

TEST(ForEachConcurrent, AnEmptyRangeIsASuccessAndNoLimitIsRefused) {
    const auto program = []() -> Task<Result<>> {
        co_return co_await for_each_concurrent(std::vector<int>(), 3,
                                               [](int) -> Task<> { co_return; });
    };
    EXPECT_TRUE(run(program()));
    EXPECT_THROW((void)for_each_concurrent(std::vector<int>(), 0, [](int) -> Task<> { co_return; }),
                 std::invalid_argument);
}

TEST(ForEachConcurrent, ConsumesAChannelUntilItIsClosed) {
    const Watchdog watchdog;
    Channel<int> jobs(2);
    int sum = 0;
    const auto produces = [&]() -> Task<Result<>> {
        for (int i = 1; i <= 10; ++i) {
            (void)co_await jobs.send(i);
        }
        jobs.close();
        co_return Result<>();
    };
    const auto program = [&]() -> Task<Result<>> {
        const auto done =
            co_await penstock::all(produces(), for_each_concurrent(jobs, 3, [&](int job) -> Task<> {
                                       co_await turns(job % 3);
                                       sum += job;
                                   }));
        co_return done ? Result<>() : failure(done.error());
    };
    EXPECT_TRUE(run(program()));
    EXPECT_EQ(sum, 55);
}

TEST(ForEachConcurrent, ConsumesTheReceivingEndOfAChannel) {
    const Watchdog watchdog;
    int sum = 0;
    const auto produces = [](Sender<int> sender) -> Task<Result<>> {
        Sender<int> jobs = std::move(sender); // closes the channel at the end
        for (int i = 1; i <= 10; ++i) {
            (void)co_await jobs.send(i);
        }
        co_return Result<>();
    };
    const auto program = [&]() -> Task<Result<>> {
        auto [jobs, queue] = make_channel<int>(2);
        const auto done = co_await penstock::all(
            produces(std::move(jobs)), for_each_concurrent(queue, 3, [&](int job) -> Task<> {
                co_await turns(job % 3);
                sum += job;
            }));
        co_return done ? Result<>() : failure(done.error());
    };
    EXPECT_TRUE(run(program()));
    EXPECT_EQ(sum, 55);
}

TEST(ForEachConcurrent, OwnsAReceiverThatIsPassedByValue) {
    const Watchdog watchdog;
    const auto program = []() -> Task<Result<>> {
        auto [jobs, queue] = make_channel<int>(2);
        EXPECT_TRUE(co_await jobs.send(7));
        const Result<> failed =
            co_await for_each_concurrent(std::move(queue), 1, [](int job) -> Task<Result<>> {
                co_return failure(job == 7 ? std::errc::io_error : std::errc::invalid_argument);
            });
        EXPECT_EQ(failed.error(), std::errc::io_error);
        // The last receiver has gone with the call.
        EXPECT_EQ((co_await jobs.send(8)).error(), penstock::Error::channel_closed);
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

/// The number of tasks of this thread's loop.
std::size_t tasks() {
    std::size_t count = 0;
    for (const auto* task = penstock::EventLoop::current().tasks().front(); task != nullptr;
         task = penstock::io::IntrusiveList<penstock::TaskContext>::after(*task)) {
        ++count;
    }
    return count;
}

TEST(ForEachConcurrent, StartsFewTasksForFewItems) {
    const Watchdog watchdog;
    constexpr std::size_t limit = 1'000;
    constexpr std::size_t few = 20;
    std::size_t asked = 0; // for the end: at least once by each task
    const auto over_a_range = [&]() -> Task<> {
        const auto is_item = [&](int item) {
            ++asked;
            return item < 3;
        };
        EXPECT_TRUE(
            co_await for_each_concurrent(std::views::iota(0) | std::views::take_while(is_item),
                                         limit, [](int) { return turns(3); }));
    };
    run(over_a_range());
    EXPECT_LT(asked, few);
    std::size_t most = 0;
    const auto over_a_channel = [&]() -> Task<> {
        Channel<int> items(3);
        for (int i = 0; i < 3; ++i) {
            EXPECT_TRUE(co_await items.send(i));
        }
        EXPECT_TRUE(co_await for_each_concurrent(items, limit, [&](int item) -> Task<> {
            co_await turns(3);
            most = std::max(most, tasks());
            if (item == 2) {
                items.close();
            }
        }));
    };
    run(over_a_channel());
    EXPECT_LT(most, few);
}

TEST(ForEachConcurrent, TakesAllValuesOfAChannelAtTheSameTimeWithinTheLimit) {
    const Watchdog watchdog;
    Channel<int> jobs(10);
    Load load;
    const auto program = [&]() -> Task<Result<>> {
        for (int i = 0; i < 10; ++i) {
            (void)co_await jobs.send(i);
        }
        jobs.close();
        co_return co_await for_each_concurrent(jobs, 4, [&](int) { return load.call(20); });
    };
    EXPECT_TRUE(run(program()));
    EXPECT_EQ(load.most, 4);
}

TEST(ForEachConcurrent, CancelledItIsAnErrorAndCallsNoFurther) {
    const Watchdog watchdog;
    int calls = 0;
    const auto program = [&](auto&& items) -> Task<Result<>> {
        Canceller canceller;
        calls = 0;
        const auto call = [&](int /*item*/) -> Task<> { // does not tell that it was cut short
            if (++calls == 3) {
                penstock::EventLoop::current().post([&] { canceller.cancel(); });
            }
            (void)co_await penstock::sleep_for(std::chrono::hours(1));
        };
        co_return co_await cancellable(canceller, for_each_concurrent(items, 3, call));
    };
    Result<> ended = run(program(std::views::iota(0, 20)));
    EXPECT_TRUE(!ended && ended.error() == std::errc::operation_canceled);
    EXPECT_EQ(calls, 3);
    const auto over_a_channel = [&]() -> Task<Result<>> {
        Channel<int> jobs(10);
        for (int i = 0; i < 10; ++i) {
            (void)co_await jobs.send(i);
        }
        co_return co_await program(jobs);
    };
    ended = run(over_a_channel());
    EXPECT_TRUE(!ended && ended.error() == std::errc::operation_canceled);
    EXPECT_EQ(calls, 3);
}

TEST(ForEachConcurrent, LeavesTheLoopToOtherTasks) {
    const Watchdog watchdog;
    bool other_ran = false;
    int calls_before = 0;
    const auto call = [&](int item) -> Task<> {
        if (item == 0) {
            penstock::EventLoop::current().post([&] { other_ran = true; });
        }
        calls_before += other_ran ? 0 : 1;
        co_return;
    };
    const auto program = [&]() -> Task<Result<>> {
        co_return co_await for_each_concurrent(std::views::iota(0, 1'000), 1, call);
    };
    EXPECT_TRUE(run(program()));
    EXPECT_LT(calls_before, 100);
}

TEST(MapConcurrent, CancelledItIsAnError) {
    const Watchdog watchdog;
    const auto program = [](int turns_before) -> Task<Result<std::vector<int>>> {
        Canceller canceller;
        const auto cancels = [&]() -> Task<> {
            co_await turns(turns_before);
            canceller.cancel();
        };
        const auto sleeps = [](int item) -> Task<Result<int>> {
            if (const Result<> slept = co_await penstock::sleep_for(std::chrono::hours(1));
                !slept) {
                co_return failure(slept.error());
            }
            co_return item;
        };
        auto [mapped, nothing] = co_await all_settled(
            cancellable(canceller, map_concurrent(std::vector<int>{1, 2, 3}, 2, sleeps)),
            cancels());
        co_return std::move(mapped);
    };
    for (int i = 0; i < 5; ++i) {
        const Result<std::vector<int>> mapped = run(program(i));
        EXPECT_TRUE(!mapped && mapped.error() == std::errc::operation_canceled);
    }
}

TEST(MapConcurrent, ReturnsTheValuesInTheOrderOfTheItems) {
    const auto program = []() -> Task<Result<std::vector<int>>> {
        co_return co_await map_concurrent(std::vector<int>{5, 1, 4, 2, 3}, 3,
                                          [](int item) { return succeeds_after(item, item * 10); });
    };
    EXPECT_EQ(run(program()), (std::vector<int>{50, 10, 40, 20, 30}));
}

TEST(MapConcurrent, TakesTasksWithoutErrorsAndReturnsTheFirstError) {
    const auto plain = []() -> Task<Result<std::vector<std::string>>> {
        co_return co_await map_concurrent(
            std::vector<int>{1, 2}, 1,
            [](int item) -> Task<std::string> { co_return std::to_string(item); });
    };
    EXPECT_EQ(run(plain()), (std::vector<std::string>{"1", "2"}));
    const auto fails = []() -> Task<Result<std::vector<int>>> {
        co_return co_await map_concurrent(std::vector<int>{1, 2, 3}, 2, [](int) {
            return penstock::testing::fails_after(1, std::errc::no_such_device);
        });
    };
    EXPECT_EQ(run(fails()).error(), std::errc::no_such_device);
}

} // namespace
