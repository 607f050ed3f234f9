#include <penstock/task/unwrap.hpp>

#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/sync/channel.hpp>
#include <penstock/sync/mutex.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/yield.hpp>

#include "coro/support/steps.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::Channel;
using penstock::Error;
using penstock::failure;
using penstock::Result;
using penstock::run;
using penstock::Scope;
using penstock::Task;
using penstock::unwrap;
using penstock::testing::fails_after;
using penstock::testing::Log;
using penstock::testing::succeeds_after;
using penstock::testing::throws_after;
using penstock::testing::turns;
using penstock::testing::Watchdog;

/// Logs its destruction.
class Witness {
public:
    Witness(Log& log, std::string name) : log_(log), name_(std::move(name)) {}
    ~Witness() { log_.push_back(name_); }
    Witness(const Witness&) = delete;
    Witness& operator=(const Witness&) = delete;

private:
    Log& log_;
    std::string name_;
};

TEST(Unwrap, ReturnsTheValue) {
    const auto program = []() -> Task<Result<int>> {
        const int of_result = co_await unwrap(Result<int>(1));
        const int of_task = co_await unwrap(succeeds_after(2, 10));
        Channel<int> channel(1);
        co_await unwrap(channel.send(100));
        co_return of_result + of_task + co_await unwrap(channel.receive());
    };
    EXPECT_EQ(run(program()), 111);
}

TEST(Unwrap, MovesTheValue) {
    const auto program = []() -> Task<Result<std::unique_ptr<int>>> {
        Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
        co_return co_await unwrap(std::move(result));
    };
    EXPECT_EQ(**run(program()), 7);
}

TEST(Unwrap, EndsTheTaskWithTheErrorOfAResult) {
    bool went_on = false;
    const auto program = [&]() -> Task<Result<int>> {
        co_await unwrap(Result<>(failure(Error::end_of_stream)));
        went_on = true;
        co_return 1;
    };
    EXPECT_EQ(run(program()).error(), Error::end_of_stream);
    EXPECT_FALSE(went_on);
}

TEST(Unwrap, EndsTheTaskWithTheErrorOfATaskOrOperation) {
    const auto of_task = []() -> Task<Result<>> {
        co_await unwrap(fails_after(1, std::errc::connection_reset));
        co_return Result<>();
    };
    EXPECT_EQ(run(of_task()).error(), std::errc::connection_reset);
    const auto of_operation = []() -> Task<Result<std::string>> {
        Channel<std::string> channel(1);
        channel.close();
        co_return co_await unwrap(channel.receive());
    };
    EXPECT_EQ(run(of_operation()).error(), Error::channel_closed);
}

TEST(Unwrap, PassesTheErrorThroughAllCallers) {
    const auto inner = []() -> Task<Result<int>> {
        co_return co_await unwrap(fails_after(1, std::errc::timed_out));
    };
    const auto middle = [&]() -> Task<Result<std::string>> {
        co_return std::to_string(co_await unwrap(inner()));
    };
    const auto outer = [&]() -> Task<Result<>> {
        (void)co_await unwrap(middle());
        co_return Result<>();
    };
    EXPECT_EQ(run(outer()).error(), std::errc::timed_out);
}

TEST(Unwrap, DestroysTheLocalVariablesAtOnceAndInOrder) {
    Log log;
    const auto fails = [&]() -> Task<Result<>> {
        const Witness first(log, "first");
        const Witness second(log, "second");
        co_await unwrap(fails_after(1, std::errc::io_error));
        co_return Result<>();
    };
    // The sibling ends later, and the failed task's frame lives until then.
    const auto sibling = [&]() -> Task<Result<>> {
        co_await turns(5);
        log.push_back("sibling");
        co_return Result<>();
    };
    const auto program = [&]() -> Task<Result<>> {
        const auto result = co_await penstock::all(fails(), sibling());
        EXPECT_EQ(result.error(), std::errc::io_error);
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
    EXPECT_EQ(log, (Log{"second", "first", "sibling"}));
}

TEST(Unwrap, LeavesExceptionsAlone) {
    const auto program = []() -> Task<Result<>> {
        co_await throws_after(1);
        co_return Result<>();
    };
    EXPECT_THROW((void)run(program()), std::runtime_error);
}

TEST(Unwrap, ReadsTheResultsOfAll) {
    const auto program = []() -> Task<Result<int>> {
        const auto [one, two] =
            co_await unwrap(penstock::all(succeeds_after(2, 1), succeeds_after(1, 2)));
        co_return one + two;
    };
    EXPECT_EQ(run(program()), 3);
}

TEST(Unwrap, EndsAScopesBodyAndItsTasks) {
    const Watchdog watchdog;
    Log log;
    const auto program = [&]() -> Task<Result<>> {
        co_return co_await penstock::with_scope([&](Scope& scope) -> Task<Result<>> {
            scope.spawn([](Log& log) -> Task<> {
                (void)co_await penstock::testing::waits_for_ever(log, "child");
            }(log));
            co_await turns(2);
            co_await unwrap(Result<>(failure(std::errc::broken_pipe)));
            co_return Result<>();
        });
    };
    EXPECT_EQ(run(program()).error(), std::errc::broken_pipe);
    EXPECT_EQ(log, (Log{"child"}));
}

TEST(Unwrap, DoesNotGrowTheStack) {
    struct Chain {
        static Task<Result<>> descend(int depth) {
            if (depth == 0) {
                co_return failure(std::errc::io_error);
            }
            co_await unwrap(descend(depth - 1));
            co_return Result<>();
        }
    };
    EXPECT_EQ(run(Chain::descend(2'000)).error(), std::errc::io_error);
}

} // namespace
