#include <penstock/io/timer_queue.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "support/callbacks.hpp"

namespace {

using penstock::io::MonotonicTime;
using penstock::io::Timer;
using penstock::io::TimerQueue;
using penstock::testing::TestTimer;

constexpr MonotonicTime end_of_time = std::numeric_limits<MonotonicTime>::max();

/// The positions of the timers in `timers` that are due at `now`, in the order in which they become
/// due.
template <typename Timers>
std::vector<std::size_t> pop_all(TimerQueue& queue, Timers& timers, MonotonicTime now) {
    std::vector<std::size_t> order;
    while (const Timer* timer = queue.pop_due(now, queue.next_sequence())) {
        EXPECT_FALSE(timer->scheduled());
        for (std::size_t i = 0; i < timers.size(); ++i) {
            if (&timers[i] == timer) {
                order.push_back(i);
            }
        }
    }
    return order;
}

TEST(TimerQueue, NewQueueIsEmpty) {
    TimerQueue queue;
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.size(), 0U);
    EXPECT_EQ(queue.pop_due(end_of_time, queue.next_sequence()), nullptr);
}

TEST(TimerQueue, PopsTimersInOrderOfTheirDeadlines) {
    TimerQueue queue;
    std::array<TestTimer, 6> timers;
    const std::array<MonotonicTime, 6> deadlines{50, 10, 40, 20, 60, 30};
    for (std::size_t i = 0; i < timers.size(); ++i) {
        queue.add(timers[i], deadlines[i]);
        EXPECT_TRUE(timers[i].scheduled());
        EXPECT_EQ(timers[i].deadline, deadlines[i]);
    }
    EXPECT_EQ(queue.next_deadline(), 10);
    EXPECT_EQ(pop_all(queue, timers, end_of_time), (std::vector<std::size_t>{1, 3, 5, 2, 0, 4}));
    EXPECT_TRUE(queue.empty());
}

TEST(TimerQueue, PopsTimersOfEqualDeadlineInOrderOfInsertion) {
    TimerQueue queue;
    std::array<TestTimer, 40> timers;
    std::vector<std::size_t> expected;
    for (std::size_t i = 0; i < timers.size(); ++i) {
        queue.add(timers[i], 7);
        expected.push_back(i);
    }
    EXPECT_EQ(pop_all(queue, timers, 7), expected);
}

TEST(TimerQueue, TimerIsDueAtItsDeadlineAndNotBefore) {
    TimerQueue queue;
    std::array<TestTimer, 1> timers;
    queue.add(timers[0], 100);
    EXPECT_EQ(queue.pop_due(99, queue.next_sequence()), nullptr);
    EXPECT_TRUE(timers[0].scheduled());
    EXPECT_EQ(queue.pop_due(100, queue.next_sequence()), &timers[0]);
    EXPECT_EQ(timers[0].runs, 0) << "the caller runs it";
}

TEST(TimerQueue, DeadlinesMayBeTheLargestAndTheSmallestNumber) {
    TimerQueue queue;
    std::array<TestTimer, 3> timers;
    queue.add(timers[0], end_of_time);
    queue.add(timers[1], std::numeric_limits<MonotonicTime>::min());
    queue.add(timers[2], 0);
    EXPECT_EQ(pop_all(queue, timers, end_of_time), (std::vector<std::size_t>{1, 2, 0}));
}

TEST(TimerQueue, CancelRemovesTheFirstTheMiddleAndTheLast) {
    for (std::size_t cancelled = 0; cancelled < 9; ++cancelled) {
        TimerQueue queue;
        std::array<TestTimer, 9> timers;
        std::vector<std::size_t> expected;
        for (std::size_t i = 0; i < timers.size(); ++i) {
            queue.add(timers[i], static_cast<MonotonicTime>(i));
            if (i != cancelled) {
                expected.push_back(i);
            }
        }
        queue.cancel(timers[cancelled]);
        EXPECT_FALSE(timers[cancelled].scheduled());
        EXPECT_EQ(queue.size(), 8U);
        EXPECT_EQ(pop_all(queue, timers, end_of_time), expected);
    }
}

TEST(TimerQueue, CancelOfATimerThatIsNotScheduledDoesNothing) {
    TimerQueue queue;
    TestTimer never;
    queue.cancel(never);
    TestTimer twice;
    queue.add(twice, 1);
    queue.cancel(twice);
    queue.cancel(twice);
    EXPECT_TRUE(queue.empty());
}

TEST(TimerQueue, TimerMayBeAddedAgainAfterItWasPoppedOrCancelled) {
    TimerQueue queue;
    TestTimer timer;
    queue.add(timer, 1);
    queue.cancel(timer);
    queue.add(timer, 2);
    EXPECT_EQ(queue.pop_due(2, queue.next_sequence()), &timer);
    queue.add(timer, 3);
    EXPECT_EQ(queue.next_deadline(), 3);
    queue.cancel(timer);
}

TEST(TimerQueue, PopDueSkipsTimersAddedSince) {
    TimerQueue queue;
    std::array<TestTimer, 5> timers;
    queue.add(timers[0], 50);
    queue.add(timers[1], 60);
    const std::uint64_t mark = queue.next_sequence();
    queue.add(timers[2], 10);
    queue.add(timers[3], 55);
    queue.add(timers[4], 20);
    EXPECT_EQ(queue.pop_due(100, mark), &timers[0]);
    EXPECT_EQ(queue.pop_due(100, mark), &timers[1]);
    EXPECT_EQ(queue.pop_due(100, mark), nullptr);
    EXPECT_EQ(pop_all(queue, timers, 100), (std::vector<std::size_t>{2, 4, 3}));
}

TEST(TimerQueue, VisitsEveryScheduledTimerOnce) {
    TimerQueue queue;
    std::array<TestTimer, 5> timers;
    for (std::size_t i = 0; i < timers.size(); ++i) {
        queue.add(timers[i], static_cast<MonotonicTime>(10 - i));
    }
    queue.cancel(timers[2]);
    std::map<const Timer*, int> visits;
    const int result = queue.visit_all([&](const Timer& timer) {
        ++visits[&timer];
        return 0;
    });
    EXPECT_EQ(result, 0);
    EXPECT_EQ(visits.size(), 4U);
    EXPECT_FALSE(visits.contains(&timers[2]));
}

TEST(TimerQueue, AMillionCancelledTimersHoldNoMemory) {
    TimerQueue queue;
    TestTimer lasting; // a server always has a live timer
    queue.add(lasting, end_of_time);
    std::vector<std::unique_ptr<Timer>> burst(1'000'000);
    for (std::size_t i = 0; i < burst.size(); ++i) {
        burst[i] = std::make_unique<Timer>([](penstock::io::Work&) {});
        queue.add(*burst[i], static_cast<MonotonicTime>(i * 7919 % burst.size()));
    }
    for (const auto& timer : burst) {
        queue.cancel(*timer);
    }
    EXPECT_EQ(queue.size(), 1U);
    EXPECT_LT(queue.capacity(), 10'000U);
    queue.cancel(lasting);
}

TEST(TimerQueue, AMillionSetAndCancelledOneByOneHoldNoMemory) {
    TimerQueue queue;
    TestTimer lasting;
    queue.add(lasting, end_of_time);
    TestTimer timeout;
    for (MonotonicTime i = 0; i < 1'000'000; ++i) {
        queue.add(timeout, i);
        queue.cancel(timeout);
    }
    EXPECT_EQ(queue.size(), 1U);
    EXPECT_LT(queue.capacity(), 100U);
    queue.cancel(lasting);
}

TEST(TimerQueue, AMillionOfEqualDelayHoldNoMemoryOnceCancelled) {
    TimerQueue queue;
    TestTimer first;
    queue.add(first, 0);
    std::vector<std::unique_ptr<Timer>> burst(1'000'000);
    for (std::size_t i = 0; i < burst.size(); ++i) {
        burst[i] = std::make_unique<Timer>([](penstock::io::Work&) {});
        queue.add(*burst[i], static_cast<MonotonicTime>(i + 1));
    }
    for (std::size_t i = 0; i + 1 < burst.size(); ++i) {
        queue.cancel(*burst[i]);
    }
    EXPECT_EQ(queue.size(), 2U);
    EXPECT_LT(queue.capacity(), 10'000U);
    EXPECT_EQ(queue.pop_due(end_of_time, queue.next_sequence()), &first);
    EXPECT_EQ(queue.pop_due(end_of_time, queue.next_sequence()), burst.back().get());
    EXPECT_TRUE(queue.empty());
}

TEST(TimerQueue, TimersOfEqualDelayThatAreReplacedHoldNoMemory) {
    TimerQueue queue;
    std::vector<TestTimer> timeouts(100);
    for (MonotonicTime i = 0; i < 100'000; ++i) {
        TestTimer& timeout = timeouts[static_cast<std::size_t>(i * 37) % timeouts.size()];
        queue.cancel(timeout);
        queue.add(timeout, i);
    }
    EXPECT_EQ(queue.size(), timeouts.size());
    EXPECT_LT(queue.capacity(), 1'000U);
    MonotonicTime last = 0;
    while (const Timer* timer = queue.pop_due(end_of_time, queue.next_sequence())) {
        EXPECT_GE(timer->deadline, last);
        last = timer->deadline;
    }
}

// The model is a multimap, which keeps equal keys in the order of their insertion.
class TimerModel : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(TimerModel, BehavesLikeAMultimap) {
    std::mt19937_64 random(GetParam());
    TimerQueue queue;
    std::vector<TestTimer> timers(300);
    std::multimap<MonotonicTime, Timer*> model;
    std::map<const Timer*, std::multimap<MonotonicTime, Timer*>::iterator> places;
    MonotonicTime now = 0;
    for (int step = 0; step < 30'000; ++step) {
        TestTimer& timer = timers[random() % timers.size()];
        const std::uint64_t choice = random() % 100;
        if (choice < 55) {
            if (!timer.scheduled()) {
                // Few different deadlines, so that many are equal.
                const bool usual = GetParam() % 2 == 0 && random() % 10 != 0;
                const MonotonicTime deadline =
                    now + (usual ? 30 : static_cast<MonotonicTime>(random() % 40));
                queue.add(timer, deadline);
                places[&timer] = model.emplace(deadline, &timer);
            }
        } else if (choice < 90) {
            queue.cancel(timer);
            if (const auto place = places.find(&timer); place != places.end()) {
                model.erase(place->second);
                places.erase(place);
            }
        } else {
            now += static_cast<MonotonicTime>(random() % 8);
            while (Timer* due = queue.pop_due(now, queue.next_sequence())) {
                ASSERT_FALSE(model.empty());
                ASSERT_EQ(due, model.begin()->second);
                ASSERT_LE(due->deadline, now);
                places.erase(due);
                model.erase(model.begin());
            }
            ASSERT_TRUE(model.empty() || model.begin()->first > now);
        }
        ASSERT_EQ(queue.size(), model.size());
        ASSERT_EQ(timer.scheduled(), places.contains(&timer));
        if (!model.empty()) {
            ASSERT_EQ(queue.next_deadline(), model.begin()->first);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, TimerModel, ::testing::Values(1, 2, 3, 4, 5));

TEST(MonotonicNow, NeverDecreases) {
    MonotonicTime last = penstock::io::monotonic_now();
    for (int i = 0; i < 10'000; ++i) {
        const MonotonicTime now = penstock::io::monotonic_now();
        ASSERT_GE(now, last);
        last = now;
    }
}

} // namespace
