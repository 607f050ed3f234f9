#include <penstock/task/all_settled.hpp>

#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/task/run.hpp>

#include "coro/support/steps.hpp"

namespace {

using penstock::all_settled;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::testing::fails_after;
using penstock::testing::succeeds_after;
using penstock::testing::throws_after;

TEST(AllSettled, YieldsEveryResultAndCancelsNone) {
    const auto program = []() -> Task<> {
        const auto [failed, succeeded] =
            co_await all_settled(fails_after(0, std::errc::io_error), succeeds_after(5, 2));
        EXPECT_EQ(failed.error(), std::errc::io_error);
        EXPECT_EQ(succeeded, 2);

        std::vector<Task<Result<int>>> tasks;
        tasks.push_back(succeeds_after(3, 7));
        tasks.push_back(fails_after(1, std::errc::bad_message));
        const std::vector<Result<int>> results = co_await all_settled(std::move(tasks));
        EXPECT_EQ(results[0], 7);
        EXPECT_EQ(results[1].error(), std::errc::bad_message);
    };
    run(program());
}

TEST(AllSettled, RethrowsAnException) {
    int ended = 0;
    const auto end = [&]() -> Task<> {
        co_await penstock::testing::turns(5);
        ++ended;
    };
    const auto program = [&]() -> Task<> { (void)co_await all_settled(throws_after(0), end()); };
    EXPECT_THROW(run(program()), std::runtime_error);
    EXPECT_EQ(ended, 1);
}

} // namespace
