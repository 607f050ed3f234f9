#include <penstock/bridge/cpu_pool.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <pthread.h>

#include <penstock/task/all.hpp>
#include <penstock/task/concurrent.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/timeout.hpp>

#include "support/child_process.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::CpuPool;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::testing::Watchdog;

TEST(CpuPool, RunsFunctionsOnItsNamedThreads) {
    const Watchdog watchdog;
    CpuPool pool("pool of the test, a long name", 2);
    EXPECT_EQ(pool.threads(), 2U);
    const auto name = [] {
        std::array<char, 16> text{};
        ::pthread_getname_np(::pthread_self(), text.data(), text.size());
        return std::string(text.data());
    };
    const auto program = [&]() -> Task<> {
        EXPECT_EQ(co_await pool.run(name), "pool of the tes");
        EXPECT_NE(co_await penstock::to_thread(name), "pool of the tes");
    };
    run(program());
}

TEST(CpuPool, RunsNoMoreFunctionsAtATimeThanItHasThreads) {
    const Watchdog watchdog;
    CpuPool pool("two", 2);
    std::atomic<int> now = 0;
    std::atomic<int> most = 0;
    const auto program = [&]() -> Task<Result<>> {
        co_return co_await penstock::for_each_concurrent(
            std::vector<int>(40), 20, [&](int) -> Task<> {
                (void)co_await pool.run([&] {
                    const int running = ++now;
                    for (int seen = most; running > seen;) {
                        most.compare_exchange_weak(seen, running);
                    }
                    std::this_thread::yield();
                    --now;
                });
            });
    };
    EXPECT_TRUE(run(program()));
    EXPECT_LE(most, 2);
    EXPECT_GE(most, 1);
}

TEST(CpuPool, RethrowsExceptionsAndWithdrawsCancelledCalls) {
    const Watchdog watchdog;
    CpuPool pool("one", 1);
    std::atomic<bool> go = false;
    bool called = false;
    const auto blocks = [&]() -> Task<Result<>> { // until the second call was withdrawn
        co_return co_await pool.run([&] {
            while (!go) {
                std::this_thread::yield();
            }
        });
    };
    const auto waits = [&]() -> Task<Result<>> {
        const Result<> late = co_await penstock::timeout(std::chrono::milliseconds(1),
                                                         pool.run([&] { called = true; }));
        EXPECT_EQ(late.error(), std::errc::timed_out);
        go = true;
        co_return Result<>();
    };
    const auto program = [&]() -> Task<> {
        EXPECT_TRUE(co_await penstock::all(blocks(), waits()));
        EXPECT_THROW((void)co_await pool.run([] { throw std::runtime_error("broken contract"); }),
                     std::runtime_error);
    };
    run(program());
    EXPECT_FALSE(called);
}

TEST(CpuPool, HasAtLeastOneThread) {
    EXPECT_THROW(CpuPool("none", 0), std::invalid_argument);
    EXPECT_GE(CpuPool("all").threads(), 1U);
}

TEST(CpuPool, AForkedChildCannotUseItButMayDestroyIt) {
    const Watchdog watchdog;
    auto pool = std::make_unique<CpuPool>("parent", 1);
    const auto call = [&]() -> Task<> { (void)co_await pool->run([] {}); };
    run(call()); // starts the thread
    const auto child = [&] {
        bool refused = false;
        try {
            run(call());
        } catch (const std::logic_error&) {
            refused = true;
        }
        pool.reset();
        return refused ? 0 : 1;
    };
    EXPECT_EQ(penstock::testing::in_child_process(child), 0);
    run(call());
}

} // namespace
