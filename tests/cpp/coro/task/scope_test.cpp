#include <penstock/task/scope.hpp>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/task/canceller.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/yield.hpp>

namespace {

using namespace std::chrono_literals;
using penstock::Canceller;
using penstock::failure;
using penstock::Result;
using penstock::run;
using penstock::Scope;
using penstock::sleep_for;
using penstock::Task;
using penstock::with_scope;
using penstock::yield;

using Log = std::vector<std::string>;

Task<> yields(int times, Log& log, std::string name) {
    for (int i = 0; i < times; ++i) {
        (void)co_await yield();
    }
    log.push_back(std::move(name));
}

/// Waits until it is cancelled, and a little longer.
Task<Result<>> waits_for_ever(Log& log) {
    const Result<> slept = co_await sleep_for(1h);
    log.push_back(slept                                            ? "slept"
                  : slept.error() == std::errc::operation_canceled ? "cancelled"
                                                                   : "?");
    co_return slept;
}

Task<Result<>> fails_after(int yields, std::errc reason) {
    for (int i = 0; i < yields; ++i) {
        (void)co_await yield();
    }
    co_return failure(reason);
}

TEST(Scope, EndsAfterItsChildren) {
    Log log;
    const auto program = [&]() -> Task<> {
        (void)co_await with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(yields(5, log, "slow"));
            scope.spawn(yields(1, log, "quick"));
            log.emplace_back("body");
            co_return;
        });
        log.emplace_back("after");
    };
    run(program());
    EXPECT_EQ(log, (Log{"body", "quick", "slow", "after"}));
}

TEST(Scope, StartsAChildInTheNextIteration) {
    Log log;
    const auto program = [&]() -> Task<> {
        (void)co_await with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(yields(0, log, "child"));
            log.emplace_back("body");
            EXPECT_EQ(scope.size(), 1U);
            (void)co_await yield();
            EXPECT_EQ(scope.size(), 0U);
        });
    };
    run(program());
    EXPECT_EQ(log, (Log{"body", "child"}));
}

TEST(Scope, YieldsTheBodysValue) {
    const auto program = []() -> Task<Result<int>> {
        co_return co_await with_scope([](Scope&) -> Task<int> { co_return 5; });
    };
    EXPECT_EQ(run(program()), 5);
}

TEST(Scope, AChildsErrorCancelsTheRestAndIsTheResult) {
    Log log;
    const auto program = [&]() -> Task<Result<>> {
        co_return co_await with_scope([&](Scope& scope) -> Task<Result<>> {
            scope.spawn(waits_for_ever(log));
            scope.spawn(fails_after(3, std::errc::io_error));
            co_return co_await waits_for_ever(log);
        });
    };
    EXPECT_EQ(run(program()).error(), std::errc::io_error);
    EXPECT_EQ(log, (Log{"cancelled", "cancelled"}));
}

TEST(Scope, TheBodysErrorCancelsItsChildren) {
    Log log;
    const auto program = [&]() -> Task<Result<>> {
        co_return co_await with_scope([&](Scope& scope) -> Task<Result<>> {
            scope.spawn(waits_for_ever(log));
            co_return co_await fails_after(2, std::errc::broken_pipe);
        });
    };
    EXPECT_EQ(run(program()).error(), std::errc::broken_pipe);
    EXPECT_EQ(log, (Log{"cancelled"}));
}

TEST(Scope, AChildsExceptionCancelsTheRestAndIsRethrown) {
    Log log;
    const auto throws = []() -> Task<> {
        (void)co_await yield();
        throw std::runtime_error("broken contract");
    };
    const auto program = [&]() -> Task<> {
        (void)co_await with_scope([&](Scope& scope) -> Task<Result<>> {
            scope.spawn(throws());
            co_return co_await waits_for_ever(log);
        });
    };
    EXPECT_THROW(run(program()), std::runtime_error);
    EXPECT_EQ(log, (Log{"cancelled"}));
}

TEST(Scope, AnExceptionOfTheBodyWaitsForTheChildren) {
    Log log;
    const auto program = [&]() -> Task<> {
        (void)co_await with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(waits_for_ever(log));
            (void)co_await yield();
            throw std::runtime_error("broken contract");
        });
    };
    EXPECT_THROW(run(program()), std::runtime_error);
    EXPECT_EQ(log, (Log{"cancelled"}));
}

TEST(Scope, CancelEndsAllChildrenAndIsASuccess) {
    Log log;
    const auto program = [&]() -> Task<Result<>> {
        co_return co_await with_scope([&](Scope& scope) -> Task<Result<>> {
            scope.spawn(waits_for_ever(log));
            (void)co_await yield();
            scope.cancel();
            scope.spawn(waits_for_ever(log));
            co_return co_await waits_for_ever(log);
        });
    };
    EXPECT_TRUE(run(program()));
    EXPECT_EQ(log, (Log{"cancelled", "cancelled", "cancelled"}));
}

TEST(Scope, CancellationGoesDownThroughScopesAndIsAwaitedUpwards) {
    Log log;
    const auto inner = [&]() -> Task<Result<>> {
        Result<> result = co_await with_scope([&](Scope& scope) -> Task<Result<>> {
            scope.spawn(waits_for_ever(log));
            co_return co_await waits_for_ever(log);
        });
        log.emplace_back("inner scope ended");
        co_return result;
    };
    const auto program = [&]() -> Task<Result<>> {
        co_return co_await with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(inner());
            (void)co_await yield();
            (void)co_await yield();
            scope.cancel();
        });
    };
    EXPECT_TRUE(run(program()));
    EXPECT_EQ(log, (Log{"cancelled", "cancelled", "inner scope ended"}));
}

TEST(Scope, ThatIsCancelledWhileItsTasksRunIsAnError) {
    const auto sleeps = []() -> Task<Result<>> { co_return co_await sleep_for(1h); };
    const auto spawns = [&](Canceller& canceller, bool waits) -> Task<Result<>> {
        co_return co_await cancellable(canceller, with_scope([&](Scope& scope) -> Task<Result<>> {
                                           scope.spawn(sleeps());
                                           if (waits) {
                                               (void)co_await sleep_for(1h);
                                           }
                                           co_return Result<>();
                                       }));
    };
    const auto program = [&]() -> Task<> {
        for (const bool body_waits : {false, true}) {
            Canceller canceller;
            penstock::EventLoop::current().post([&] { canceller.cancel(); });
            const Result<> ended = co_await spawns(canceller, body_waits);
            EXPECT_TRUE(!ended && ended.error() == std::errc::operation_canceled);
        }
    };
    run(program());
}

TEST(Scope, FreesAChildsParametersWhenItEnds) {
    auto watched = std::make_shared<int>(1);
    const auto hold = [](std::shared_ptr<int>) -> Task<> { co_return; };
    const auto program = [&]() -> Task<> {
        (void)co_await with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(hold(watched));
            EXPECT_EQ(watched.use_count(), 2);
            (void)co_await yield();
            EXPECT_EQ(watched.use_count(), 1);
        });
    };
    run(program());
}

TEST(Scope, TenThousandNestedChildrenEndBeforeIt) {
    int ended = 0;
    std::function<Task<>(Scope&, int)> spawns_another = [&](Scope& scope, int left) -> Task<> {
        if (left > 0) {
            scope.spawn(spawns_another(scope, left - 1));
        }
        (void)co_await yield();
        ++ended;
    };
    const auto program = [&]() -> Task<> {
        (void)co_await with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(spawns_another(scope, 9'999));
            co_return;
        });
    };
    run(program());
    EXPECT_EQ(ended, 10'000);
}

TEST(Scope, ABodyThatIsNoCoroutineMaySpawn) {
    Log log;
    const auto program = [&]() -> Task<> {
        EXPECT_TRUE(co_await with_scope([&](Scope& scope) {
            scope.spawn(yields(1, log, "child"));
            return yields(0, log, "body");
        }));
    };
    run(program());
    EXPECT_EQ(log, (Log{"body", "child"}));
}

TEST(Scope, ABodyThatThrowsBeforeItReturnsItsTaskWaitsForItsChildren) {
    Log log;
    const auto program = [&]() -> Task<> {
        (void)co_await with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(waits_for_ever(log));
            throw std::runtime_error("broken contract");
        });
    };
    EXPECT_THROW(run(program()), std::runtime_error);
    EXPECT_EQ(log, (Log{"cancelled"}));
}

TEST(Scope, ABodyThatCancelsBeforeItReturnsItsTaskRunsCancelled) {
    Log log;
    const auto program = [&]() -> Task<> {
        EXPECT_TRUE(co_await with_scope([&](Scope& scope) {
            scope.cancel();
            return waits_for_ever(log);
        }));
    };
    run(program());
    EXPECT_EQ(log, (Log{"cancelled"}));
}

TEST(Scope, DrainWaitsForTheSpawnedTasks) {
    Log log;
    const auto program = [&]() -> Task<Result<>> {
        co_return co_await with_scope([&](Scope& scope) -> Task<Result<>> {
            EXPECT_TRUE(co_await scope.drain(0s)); // nothing to wait for
            scope.spawn(yields(5, log, "slow"));
            scope.spawn(yields(1, log, "quick"));
            EXPECT_TRUE(co_await scope.drain(1h));
            log.emplace_back("drained");
            scope.spawn(yields(1, log, "later"));
            co_return co_await scope.drain(1h);
        });
    };
    EXPECT_TRUE(run(program()));
    EXPECT_EQ(log, (Log{"quick", "slow", "drained", "later"}));
}

TEST(Scope, DrainCancelsWhatRemainsButNotTheBody) {
    Log log;
    const auto program = [&]() -> Task<Result<>> {
        co_return co_await with_scope([&](Scope& scope) -> Task<Result<>> {
            scope.spawn(waits_for_ever(log));
            EXPECT_EQ((co_await scope.drain(1ms)).error(), std::errc::timed_out);
            scope.spawn(waits_for_ever(log)); // starts cancelled
            EXPECT_TRUE(co_await sleep_for(1ms));
            log.emplace_back("body");
            co_return Result<>();
        });
    };
    EXPECT_TRUE(run(program()));
    EXPECT_EQ(log, (Log{"cancelled", "cancelled", "body"}));
}

TEST(Scope, ACancelledDrainCancelsEverything) {
    Log log;
    const auto program = [&]() -> Task<Result<>> {
        co_return co_await with_scope([&](Scope& scope) -> Task<Result<>> {
            scope.spawn(waits_for_ever(log));
            scope.spawn([](Scope& scope) -> Task<> {
                (void)co_await yield();
                scope.cancel();
            }(scope));
            const Result<> drained = co_await scope.drain(1h);
            EXPECT_EQ(drained.error(), std::errc::operation_canceled);
            co_return drained;
        });
    };
    EXPECT_TRUE(run(program()));
    EXPECT_EQ(log, (Log{"cancelled"}));
}

TEST(Scope, OnlyOneTaskDrains) {
    Log log;
    const auto program = [&]() -> Task<Result<>> {
        co_return co_await with_scope([&](Scope& scope) -> Task<Result<>> {
            scope.spawn([](Scope& scope, Log& log) -> Task<> {
                EXPECT_EQ((co_await scope.drain(1h)).error(), std::errc::device_or_resource_busy);
                log.emplace_back("refused");
            }(scope, log));
            co_return co_await scope.drain(1h);
        });
    };
    EXPECT_TRUE(run(program()));
    EXPECT_EQ(log, (Log{"refused"}));
}

} // namespace
