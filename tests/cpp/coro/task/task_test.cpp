#include <penstock/task/task.hpp>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <sys/resource.h>

#include <gtest/gtest.h>

#include <penstock/task/run.hpp>
#include <penstock/task/yield.hpp>

namespace {

using penstock::failure;
using penstock::Result;
using penstock::run;
using penstock::Task;

Task<int> number(int value) {
    co_return value;
}

TEST(Task, UsingItTwiceTerminatesTheProgramWithAMessage) {
    Task<int> task = number(1);
    EXPECT_EQ(run(std::move(task)), 1);
    // NOLINTNEXTLINE(bugprone-use-after-move): what is tested
    EXPECT_DEATH((void)run(std::move(task)), "a task runs once");
    const auto await_again = []() -> Task<int> {
        Task<int> inner = number(1);
        (void)co_await std::move(inner);
        co_return co_await std::move(inner); // NOLINT(bugprone-use-after-move)
    };
    EXPECT_DEATH((void)run(await_again()), "a task runs once");
}

Task<long> sum_of_completed_tasks(int count) {
    long sum = 0;
    for (int i = 0; i < count; ++i) {
        sum += co_await number(1);
    }
    co_return sum;
}

Task<int> depth(int levels) {
    if (levels == 0) {
        co_return 0;
    }
    co_return 1 + co_await depth(levels - 1);
}

/// With one stack frame of this size each, the counts below would need gigabytes of stack.
class SmallStack {
public:
    SmallStack() { getrlimit(RLIMIT_STACK, &before_); }
    [[nodiscard]] bool is_small() const { return before_.rlim_cur <= rlim_t{64} * 1024 * 1024; }

private:
    rlimit before_{};
};

TEST(Task, YieldsItsValue) {
    EXPECT_EQ(run(number(7)), 7);
}

TEST(Task, MovesAValueThatCannotBeCopied) {
    const auto make = []() -> Task<std::unique_ptr<int>> { co_return std::make_unique<int>(3); };
    EXPECT_EQ(*run(make()), 3);
}

TEST(Task, IsLazy) {
    bool began = false;
    const auto begin = [](bool& flag) -> Task<> {
        flag = true;
        co_return;
    };
    {
        const Task<> dropped = begin(began);
    }
    EXPECT_FALSE(began);
    run(begin(began));
    EXPECT_TRUE(began);
}

TEST(Task, DestroysItsParametersIfItNeverStarts) {
    auto watched = std::make_shared<int>(1);
    const auto hold = [](std::shared_ptr<int> value) -> Task<int> { co_return *value; };
    {
        const Task<int> dropped = hold(watched);
        EXPECT_EQ(watched.use_count(), 2);
    }
    EXPECT_EQ(watched.use_count(), 1);
}

TEST(Task, AMillionCompletionsInARowDoNotGrowTheStack) {
    ASSERT_TRUE(SmallStack().is_small());
    EXPECT_EQ(run(sum_of_completed_tasks(1'000'000)), 1'000'000);
}

TEST(Task, ADeepChainReturnsWithoutGrowingTheStack) {
    ASSERT_TRUE(SmallStack().is_small());
    EXPECT_EQ(run(depth(300'000)), 300'000);
}

TEST(Task, AHundredThousandYieldsDoNotGrowTheStack) {
    const auto many = []() -> Task<int> {
        int done = 0;
        for (int i = 0; i < 100'000; ++i) {
            done += (co_await penstock::yield()).has_value() ? 1 : 0;
        }
        co_return done;
    };
    EXPECT_EQ(run(many()), 100'000);
}

TEST(Task, RethrowsWhereItIsAwaited) {
    const auto fail = []() -> Task<int> {
        throw std::runtime_error("broken contract");
        co_return 1;
    };
    const auto handle = [](auto task) -> Task<std::string> {
        try {
            co_await std::move(task);
        } catch (const std::runtime_error& error) {
            co_return error.what();
        }
        co_return "nothing";
    };
    EXPECT_EQ(run(handle(fail())), "broken contract");
}

TEST(Task, RunRethrowsItsException) {
    const auto fail = []() -> Task<> {
        (void)co_await penstock::yield();
        throw std::runtime_error("broken contract");
    };
    EXPECT_THROW(run(fail()), std::runtime_error);
}

TEST(Task, YieldsAnErrorAsAValue) {
    const auto fail = []() -> Task<Result<int>> { co_return failure(std::errc::no_such_device); };
    EXPECT_EQ(run(fail()).error(), std::errc::no_such_device);
}

} // namespace
