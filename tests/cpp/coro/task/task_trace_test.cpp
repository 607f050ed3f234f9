#include <penstock/task/task_trace.hpp>

#include <csignal>
#include <string>

#include <gtest/gtest.h>

#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/sleep.hpp>

#include "coro/support/logs.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::EventLoop;
using penstock::Result;
using penstock::run;
using penstock::Scope;
using penstock::Task;
using penstock::testing::turns;

Task<> sleeps_deep_inside() {
    (void)co_await penstock::sleep_for(1h);
}

Task<> awaits_the_sleeper() {
    co_await sleeps_deep_inside();
}

Task<std::string> traced() {
    std::string text;
    (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
        scope.spawn(awaits_the_sleeper());
        co_await turns(2);
        text = penstock::trace_tasks(EventLoop::current());
        scope.cancel();
    });
    co_return text;
}

TEST(TaskTrace, ShowsWhereEachTaskWaitsInnermostFirst) {
    const std::string text = run(traced());
    const std::size_t root = text.find("traced()");
    const std::size_t inner = text.find("sleeps_deep_inside()");
    const std::size_t outer = text.find("awaits_the_sleeper()");
    ASSERT_NE(root, std::string::npos) << text;
    ASSERT_NE(inner, std::string::npos) << text;
    ASSERT_NE(outer, std::string::npos) << text;
    EXPECT_LT(root, inner) << text;
    EXPECT_LT(inner, outer) << text;
    EXPECT_NE(text.find("task_trace_test.cpp:"), std::string::npos) << text;
    EXPECT_NE(text.find("  task 2"), std::string::npos) << text;
}

TEST(TaskTrace, IsPrintedOnASignal) {
    const auto program = []() -> Task<> {
        const penstock::TraceOnSignal trace(SIGUSR1);
        ::raise(SIGUSR1);
        (void)co_await penstock::sleep_for(1ms);
    };
    ::testing::internal::CaptureStderr();
    run(program());
    const std::string text = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(text.find("task 1 waits"), std::string::npos) << text;
    EXPECT_NE(text.find("task_trace_test.cpp:"), std::string::npos) << text;
}

} // namespace
