#include <penstock/task/yield.hpp>

#include <string>

#include <gtest/gtest.h>

#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>

#include "coro/support/logs.hpp"

namespace {

using penstock::Result;
using penstock::run;
using penstock::Scope;
using penstock::Task;
using penstock::testing::Log;

TEST(Yield, LetsReadyTasksRunFirst) {
    Log log;
    const auto note = [&](std::string name) -> Task<> {
        log.push_back(name + " 1");
        EXPECT_TRUE(co_await penstock::yield());
        log.push_back(name + " 2");
    };
    const auto program = [&]() -> Task<> {
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(note("a"));
            scope.spawn(note("b"));
            co_return;
        });
    };
    run(program());
    EXPECT_EQ(log, (Log{"a 1", "b 1", "a 2", "b 2"}));
}

TEST(Yield, ReportsACancellationBeforeAndMeanwhile) {
    int steps = 0;
    const auto compute = [&]() -> Task<> {
        while (co_await penstock::yield()) {
            ++steps;
        }
        EXPECT_EQ((co_await penstock::yield()).error(), std::errc::operation_canceled);
    };
    const auto program = [&]() -> Task<> {
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(compute());
            co_await penstock::testing::turns(5);
            scope.cancel();
        });
    };
    run(program());
    EXPECT_GE(steps, 3);
}

} // namespace
