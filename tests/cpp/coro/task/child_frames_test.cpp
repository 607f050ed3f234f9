// When the frame of a combinator's child is freed, with the parameters of its task.

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/sync/channel_ends.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/all_settled.hpp>
#include <penstock/task/any.hpp>
#include <penstock/task/race.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/yield.hpp>

#include "coro/support/steps.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::Receiver;
using penstock::Result;
using penstock::run;
using penstock::Scope;
using penstock::Sender;
using penstock::Task;
using penstock::sync::Event;
using penstock::testing::fails_after;
using penstock::testing::Log;
using penstock::testing::succeeds_after;
using penstock::testing::Watchdog;

/// A parameter that tells its end.
class Told {
public:
    explicit Told(std::function<void()> at_end) : at_end_(std::move(at_end)) {}
    Told(Told&& other) noexcept : at_end_(std::exchange(other.at_end_, nullptr)) {}
    Told& operator=(Told&&) = delete;
    ~Told() {
        if (at_end_) {
            at_end_();
        }
    }

private:
    std::function<void()> at_end_;
};

Task<Result<int>> holds(Told /*told*/, Task<Result<int>> task) {
    co_return co_await std::move(task);
}

Task<Result<int>> waits_for(Event& event) {
    if (const Result<> waited = co_await event.wait(); !waited) {
        co_return penstock::failure(waited.error());
    }
    co_return 0;
}

Task<> produces(Sender<int> sender, int count) {
    for (int i = 0; i < count; ++i) {
        EXPECT_TRUE(co_await sender.send(i));
    }
}

Task<int> consumes(Receiver<int> receiver) {
    int sum = 0;
    while (const Result<int> value = co_await receiver.receive()) {
        sum += *value;
    }
    co_return sum;
}

TEST(ChildFrames, AProducerAndItsConsumerEnd) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        auto [sender, receiver] = penstock::make_channel<int>(2);
        const auto [nothing, sum] =
            co_await penstock::all(produces(std::move(sender), 5), consumes(std::move(receiver)));
        EXPECT_EQ(sum, 10);
    };
    run(program());
}

// One child waits for the end of the other one's parameter.
TEST(ChildFrames, AreFreedWhileASiblingStillRuns) {
    const Watchdog watchdog;
    Event freed;
    const auto first = [&](Task<Result<int>> task) {
        return holds(Told([&] { freed.set(); }), std::move(task));
    };
    const auto both = [&] {
        std::vector<Task<Result<int>>> tasks;
        tasks.push_back(first(succeeds_after(1, 1)));
        tasks.push_back(waits_for(freed));
        return tasks;
    };
    const auto program = [&]() -> Task<> {
        for (const int turns_before : {0, 1}) {
            EXPECT_TRUE(
                co_await penstock::all(first(succeeds_after(turns_before, 1)), waits_for(freed)));
            freed.reset();
            EXPECT_TRUE(co_await penstock::any(
                first(fails_after(turns_before, std::errc::io_error)), waits_for(freed)));
            freed.reset();
            (void)co_await penstock::all_settled(first(succeeds_after(turns_before, 1)),
                                                 waits_for(freed));
            freed.reset();
        }
        EXPECT_TRUE(co_await penstock::all(both()));
        freed.reset();
        (void)co_await penstock::all_settled(both());
        freed.reset();
    };
    run(program());
}

// What a parameter's destructor does comes after the outcome.
TEST(ChildFrames, AreFreedWhenTheSiblingsKnowTheOutcome) {
    const Watchdog watchdog;
    Event freed;
    std::error_code seen;
    const auto sibling = [&]() -> Task<Result<int>> {
        const Result<int> waited = co_await waits_for(freed);
        seen = waited ? std::error_code() : waited.error();
        co_return waited;
    };
    const auto program = [&]() -> Task<> {
        const auto result = co_await penstock::all(
            holds(Told([&] { freed.set(); }), fails_after(1, std::errc::io_error)), sibling());
        EXPECT_EQ(result.error(), std::errc::io_error);
        EXPECT_EQ(seen, std::errc::operation_canceled);
    };
    run(program());
}

// ... and before the combinator's result, in the order in which the tasks end, on their thread.
TEST(ChildFrames, AreFreedInTheOrderOfTheEnds) {
    const Watchdog watchdog;
    Log log;
    const std::thread::id thread = std::this_thread::get_id();
    const auto named = [&](std::string name) {
        return Told([&log, thread, name = std::move(name)] {
            EXPECT_EQ(std::this_thread::get_id(), thread);
            log.push_back(name);
        });
    };
    const auto program = [&]() -> Task<> {
        const auto first = co_await penstock::race(
            holds(named("loser"), penstock::testing::waits_for_ever(log, "cancelled")),
            holds(named("winner"), succeeds_after(2, 7)),
            holds(named("last"), penstock::testing::waits_for_ever(log, "cancelled too")));
        log.emplace_back("race");
        EXPECT_EQ(std::get<1>(first), 7);
    };
    run(program());
    EXPECT_EQ(log, (Log{"winner", "cancelled", "loser", "cancelled too", "last", "race"}));
}

TEST(ChildFrames, AParameterMayCancelTheScopeInItsDestructor) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        int finished = 0;
        for (const int later : {0, 1, 2}) {
            (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
                const auto both = co_await penstock::all(
                    holds(Told([&] { scope.cancel(); }), succeeds_after(1, 1)),
                    succeeds_after(later, 2));
                EXPECT_TRUE(both); // neither has waited for anything that can be cancelled
                ++finished;
            });
        }
        EXPECT_EQ(finished, 3);
    };
    run(program());
}

TEST(ChildFrames, AScopeWaitsForATaskThatTheParameterOfItsLastOneSpawns) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        bool finished = false;
        const auto later = [&]() -> Task<> {
            (void)co_await penstock::yield();
            finished = true;
        };
        const auto spawns = [](Told /*told*/) -> Task<> { co_return; };
        for (const bool drains : {false, true}) {
            finished = false;
            (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
                scope.spawn(spawns(Told([&] { scope.spawn(later()); })));
                if (drains) {
                    EXPECT_TRUE(co_await scope.drain(std::chrono::hours(1)));
                    EXPECT_TRUE(finished);
                }
            });
            EXPECT_TRUE(finished);
        }
    };
    run(program());
}

/// Throws at its third move: into the promise, out of it.
class Stubborn {
public:
    explicit Stubborn(int moves) : moves_(moves) {}
    // NOLINTNEXTLINE(performance-noexcept-move-constructor): it throws
    Stubborn(Stubborn&& other) : moves_(other.moves_ - 1) {
        if (moves_ == 0) {
            throw std::runtime_error("cannot be moved");
        }
    }
    Stubborn& operator=(Stubborn&&) = delete;

private:
    int moves_;
};

TEST(ChildFrames, AnExceptionOfTheValuesMoveIsTheTasks) {
    const Watchdog watchdog;
    for (const int moves : {1, 2, 3}) {
        const auto value = [moves]() -> Task<Stubborn> { co_return Stubborn(moves); };
        const auto program = [&]() -> Task<> {
            (void)co_await penstock::all(value(), penstock::yield());
        };
        EXPECT_THROW(run(program()), std::runtime_error) << moves;
    }
}

} // namespace
