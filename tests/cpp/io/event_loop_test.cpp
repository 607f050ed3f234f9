#include <penstock/io/event_loop.hpp>

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/callbacks.hpp"
#include "support/descriptors.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::io::EventLoop;
using penstock::io::monotonic_now;
using penstock::io::MonotonicTime;
using penstock::testing::SocketPair;
using penstock::testing::TestTimer;
using penstock::testing::TestWatch;
using penstock::testing::TestWork;
using penstock::testing::Watchdog;
namespace io = penstock::io;

using Log = std::vector<std::string>;

constexpr std::int64_t one_hour = 3'600'000'000'000;

/// A loop with two pieces of ready work, two readable descriptors and two due timers. Each writes
/// its name into `log` and then runs `after`.
struct BusyLoop {
    BusyLoop() {
        for (std::size_t i = 0; i < 2; ++i) {
            const std::string number = std::to_string(i + 1);
            work[i].function = [this, number] { note("work " + number); };
            loop.schedule(work[i]);
            watches[i].function = [this](TestWatch& self) {
                penstock::testing::drain(self.fd);
                note("descriptor");
            };
            EXPECT_FALSE(loop.poller().add(watches[i], pairs[i].near.get(), io::readable));
            write_byte(pairs[i].far);
            timers[i].function = [this, number] { note("timer " + number); };
            loop.timers().add(timers[i], static_cast<MonotonicTime>(i));
        }
    }
    ~BusyLoop() {
        for (std::size_t i = 0; i < 2; ++i) {
            loop.poller().remove(watches[i]);
            loop.timers().cancel(timers[i]);
        }
    }
    BusyLoop(const BusyLoop&) = delete;
    BusyLoop& operator=(const BusyLoop&) = delete;

    void note(const std::string& name) {
        log.push_back(name);
        if (after) {
            after(name);
        }
    }

    EventLoop loop;
    Log log;
    std::function<void(const std::string&)> after;
    std::array<TestWork, 2> work;
    std::array<SocketPair, 2> pairs;
    std::array<TestWatch, 2> watches;
    std::array<TestTimer, 2> timers;
};

const Log whole_iteration{"work 1", "work 2", "descriptor", "descriptor", "timer 1", "timer 2"};

TEST(EventLoop, RunsReadyWorkThenDescriptorsThenDueTimers) {
    BusyLoop busy;
    busy.loop.run_once();
    EXPECT_EQ(busy.log, whole_iteration);
    EXPECT_FALSE(busy.loop.has_ready_work());
}

TEST(EventLoop, WorkScheduledMeanwhileRunsInTheNextIteration) {
    BusyLoop busy;
    std::vector<std::unique_ptr<TestWork>> later;
    busy.after = [&](const std::string& name) {
        later.push_back(std::make_unique<TestWork>([&busy] { busy.log.emplace_back("later"); }));
        if (name == "work 1") {
            busy.loop.post(*later.back());
        } else {
            busy.loop.schedule(*later.back());
        }
    };
    busy.loop.run_once();
    EXPECT_EQ(busy.log, whole_iteration);
    busy.log.clear();
    busy.loop.run_once();
    EXPECT_EQ(busy.log, Log(whole_iteration.size(), "later"));
}

TEST(EventLoop, TimerAddedMeanwhileRunsInTheNextIterationThoughItIsDue) {
    EventLoop loop;
    TestTimer timer;
    timer.function = [&] { loop.timers().add(timer, 0); };
    loop.timers().add(timer, 0);
    for (int iteration = 1; iteration <= 10; ++iteration) {
        loop.run_once();
        EXPECT_EQ(timer.runs, iteration);
    }
    loop.timers().cancel(timer);
}

TEST(EventLoop, PostedWorkKeepsItsOrderBehindScheduledWork) {
    EventLoop loop;
    Log log;
    TestWork scheduled([&] { log.emplace_back("scheduled"); });
    TestWork first([&] { log.emplace_back("first"); });
    TestWork second([&] { log.emplace_back("second"); });
    loop.post(first);
    loop.schedule(scheduled);
    loop.post(second);
    loop.run_once();
    EXPECT_EQ(log, (Log{"scheduled", "first", "second"}));
}

TEST(EventLoop, PostWhileBlockedWakes) {
    const Watchdog watchdog;
    EventLoop loop;
    TestWork work;
    std::thread poster([&] { loop.post(work); });
    while (work.runs == 0) {
        loop.run_once();
    }
    poster.join();
    EXPECT_EQ(work.runs, 1);
}

// After an interrupt the rest of the iteration runs later. Everything runs exactly once.
class InterruptAfter : public ::testing::TestWithParam<std::size_t> {};

TEST_P(InterruptAfter, KeepsWorkThatHasNotRun) {
    BusyLoop busy;
    busy.after = [&](const std::string&) {
        if (busy.log.size() == GetParam()) {
            busy.loop.interrupt();
        }
    };
    busy.loop.run_once();
    EXPECT_EQ(busy.log, Log(whole_iteration.begin(),
                            whole_iteration.begin() + static_cast<std::ptrdiff_t>(GetParam())));
    busy.after = nullptr;
    busy.loop.run_once(0);
    EXPECT_EQ(busy.log, whole_iteration);
    busy.loop.run_once(0);
    EXPECT_EQ(busy.log, whole_iteration);
}

INSTANTIATE_TEST_SUITE_P(EveryPlace, InterruptAfter, ::testing::Range<std::size_t>(1, 7));

TEST(EventLoop, InterruptedWorkRunsBeforeWorkScheduledMeanwhile) {
    EventLoop loop;
    Log log;
    TestWork meanwhile([&] { log.emplace_back("meanwhile"); });
    TestWork first([&] {
        log.emplace_back("first");
        loop.schedule(meanwhile);
        loop.interrupt();
    });
    TestWork second([&] { log.emplace_back("second"); });
    loop.schedule(first);
    loop.schedule(second);
    loop.run_once();
    EXPECT_TRUE(loop.has_ready_work());
    loop.run_once();
    EXPECT_EQ(log, (Log{"first", "second", "meanwhile"}));
}

TEST(EventLoop, InterruptOutsideAnIterationDoesNotDelayTheNext) {
    EventLoop loop;
    TestWork work;
    loop.schedule(work);
    loop.interrupt();
    loop.run_once();
    EXPECT_EQ(work.runs, 1);
}

TEST(EventLoop, DueTimerMayBeCancelledAndDestroyedByAnyEarlierCallback) {
    for (const std::string canceller : {"work 2", "descriptor", "timer 1"}) {
        BusyLoop busy;
        auto victim = std::make_unique<TestTimer>([&] { busy.log.emplace_back("victim"); });
        busy.loop.timers().add(*victim, 1);
        busy.after = [&](const std::string& name) {
            if (name == canceller && victim) {
                busy.loop.timers().cancel(*victim);
                victim.reset();
            }
        };
        busy.loop.run_once();
        EXPECT_EQ(busy.log, whole_iteration) << canceller;
    }
}

TEST(EventLoop, TimerMayDestroyItself) {
    EventLoop loop;
    std::unique_ptr<TestTimer> timer = std::make_unique<TestTimer>([&] { timer.reset(); });
    loop.timers().add(*timer, 0);
    loop.run_once();
    EXPECT_EQ(timer, nullptr);
    EXPECT_TRUE(loop.timers().empty());
}

TEST(EventLoop, WaitsForTheNextTimerAndNeverRunsItEarly) {
    EventLoop loop;
    TestTimer timer;
    const MonotonicTime deadline = monotonic_now() + 2'000'000;
    loop.timers().add(timer, deadline);
    while (timer.runs == 0) {
        loop.run_once();
    }
    EXPECT_GE(monotonic_now(), deadline);
}

TEST(EventLoop, RunOnceWaitsNoLongerThanItsLimit) {
    EventLoop loop;
    TestTimer timer;
    loop.run_once(0);
    loop.run_once(1'000'000);
    loop.timers().add(timer, monotonic_now() + one_hour);
    loop.run_once(0);
    loop.run_once(1'000'000);
    EXPECT_EQ(timer.runs, 0);
    loop.timers().cancel(timer);
}

TEST(EventLoop, LongLimitEndsWithTheNextTimer) {
    EventLoop loop;
    TestTimer timer;
    loop.timers().add(timer, monotonic_now() + 1'000'000);
    loop.run_once(one_hour);
    EXPECT_EQ(timer.runs, 1);
}

TEST(EventLoop, PrepareReturnsTheTimeToWait) {
    EventLoop loop;
    EXPECT_LT(loop.prepare(), 0) << "without limit";
    TestTimer timer;
    loop.timers().add(timer, monotonic_now() + one_hour);
    const std::int64_t timeout_ns = loop.prepare();
    EXPECT_GT(timeout_ns, 0);
    EXPECT_LE(timeout_ns, one_hour);
    TestWork work;
    loop.schedule(work);
    EXPECT_EQ(loop.prepare(), 0);
    loop.dispatch();
    loop.timers().cancel(timer);
}

/// A loop of which a socket can end a wait.
struct EventLoopAlarm : ::testing::Test {
    EventLoopAlarm() { EXPECT_FALSE(loop.poller().add(watch, pair.near.get(), io::readable)); }
    ~EventLoopAlarm() override { loop.poller().remove(watch); }
    EventLoopAlarm(const EventLoopAlarm&) = delete;
    EventLoopAlarm& operator=(const EventLoopAlarm&) = delete;

    void wait_for_event() {
        write_byte(pair.far);
        loop.run_once();
    }

    const Watchdog watchdog;
    EventLoop loop;
    const SocketPair pair;
    TestWatch watch{[](TestWatch& self) { penstock::testing::drain(self.fd); }};
};

TEST_F(EventLoopAlarm, ReplacesTimeOutsOnceItIsSet) {
    TestTimer distant;
    loop.timers().add(distant, monotonic_now() + one_hour);
    EXPECT_GT(loop.prepare(), 0) << "no wait has set it yet";
    wait_for_event();
    EXPECT_EQ(loop.prepare(), -1);
    TestTimer later;
    loop.timers().add(later, monotonic_now() + 2 * one_hour);
    EXPECT_EQ(loop.prepare(), -1);
    TestTimer earlier;
    const MonotonicTime deadline = monotonic_now() + 200'000'000;
    loop.timers().add(earlier, deadline);
    EXPECT_GT(loop.prepare(), 0);
    while (earlier.runs == 0) {
        loop.run_once();
    }
    EXPECT_GE(monotonic_now(), deadline);
    EXPECT_EQ(distant.runs + later.runs, 0);
    EXPECT_EQ(watch.calls(), 1U);
    loop.timers().cancel(distant);
    loop.timers().cancel(later);
}

TEST_F(EventLoopAlarm, TimerRunsThoughAnInterruptHasDroppedTheExpiry) {
    TestTimer timer;
    loop.timers().add(timer, monotonic_now() + 200'000'000);
    wait_for_event();
    TestWork interrupt([&] {
        penstock::testing::await_expiry_of_the_alarm();
        EXPECT_EQ(loop.poller().wait(0), 1) << "the expiry";
        loop.interrupt();
    });
    loop.schedule(interrupt);
    while (timer.runs == 0) {
        loop.run_once();
    }
    EXPECT_GE(monotonic_now(), timer.deadline);
}

TEST(EventLoop, TimerAtTheSmallestTimeIsDueAndAtTheLargestIsNot) {
    EventLoop loop;
    TestTimer first;
    TestTimer last;
    loop.timers().add(first, std::numeric_limits<MonotonicTime>::min());
    loop.timers().add(last, std::numeric_limits<MonotonicTime>::max());
    EXPECT_EQ(loop.prepare(), 0);
    loop.run_once(0);
    EXPECT_EQ(first.runs, 1);
    EXPECT_EQ(last.runs, 0);
    EXPECT_GT(loop.prepare(), one_hour);
    loop.timers().cancel(last);
}

// A busy loop need not poll in every iteration, but it must poll from time to time.
TEST(EventLoop, BusyLoopStillServesDescriptorsTimersAndPosts) {
    EventLoop loop;
    const SocketPair pair;
    TestWatch watch([](TestWatch& self) { penstock::testing::drain(self.fd); });
    ASSERT_FALSE(loop.poller().add(watch, pair.near.get(), io::readable));
    TestWork busy;
    busy.function = [&] { loop.schedule(busy); };
    loop.schedule(busy);
    for (std::size_t round = 1; round <= 20; ++round) {
        for (int idle = 0; idle < 100; ++idle) {
            loop.run_once();
        }
        TestTimer timer;
        TestWork posted;
        write_byte(pair.far);
        loop.timers().add(timer, 0);
        loop.post(posted);
        for (int iteration = 0; iteration < 100; ++iteration) {
            loop.run_once();
        }
        EXPECT_EQ(watch.calls(), round);
        EXPECT_EQ(timer.runs, 1);
        EXPECT_EQ(posted.runs, 1);
    }
    loop.poller().remove(watch);
    while (loop.ready().pop_front() != nullptr) {
    }
}

// Whether the callbacks before it were cheap or not.
TEST(EventLoop, PollsAfterASlowCallback) {
    EventLoop loop;
    const SocketPair pair;
    TestWatch watch([](TestWatch& self) { penstock::testing::drain(self.fd); });
    ASSERT_FALSE(loop.poller().add(watch, pair.near.get(), io::readable));
    bool slow = false;
    TestWork busy;
    busy.function = [&] {
        loop.schedule(busy);
        const MonotonicTime end = monotonic_now() + (slow ? 1'000'000 : 0);
        while (monotonic_now() < end) {
        }
    };
    loop.schedule(busy);
    for (std::size_t round = 1; round <= 20; ++round) {
        slow = false;
        for (std::size_t cheap = 0; cheap < 100 + round; ++cheap) {
            loop.run_once();
        }
        write_byte(pair.far);
        slow = true;
        loop.run_once();
        slow = false;
        loop.run_once();
        EXPECT_EQ(watch.calls(), round);
    }
    loop.poller().remove(watch);
    while (loop.ready().pop_front() != nullptr) {
    }
}

TEST(EventLoop, LoopBusyWithTimersAloneStillServesDescriptors) {
    EventLoop loop;
    const SocketPair pair;
    TestWatch watch([](TestWatch& self) { penstock::testing::drain(self.fd); });
    ASSERT_FALSE(loop.poller().add(watch, pair.near.get(), io::readable));
    TestTimer timer;
    timer.function = [&] { loop.timers().add(timer, 0); };
    loop.timers().add(timer, 0);
    for (int iteration = 0; iteration < 200; ++iteration) {
        loop.run_once();
    }
    write_byte(pair.far);
    for (int iteration = 0; iteration < 100; ++iteration) {
        loop.run_once();
    }
    EXPECT_EQ(watch.calls(), 1U);
    loop.timers().cancel(timer);
    loop.poller().remove(watch);
}

TEST(EventLoop, IdleRunOnceWithoutWaitingPollsEveryTime) {
    EventLoop loop;
    const SocketPair pair;
    TestWatch watch([](TestWatch& self) { penstock::testing::drain(self.fd); });
    ASSERT_FALSE(loop.poller().add(watch, pair.near.get(), io::readable));
    for (std::size_t round = 1; round <= 5; ++round) {
        for (int idle = 0; idle < 100; ++idle) {
            loop.run_once(0);
        }
        write_byte(pair.far);
        loop.run_once(0);
        EXPECT_EQ(watch.calls(), round);
    }
    loop.poller().remove(watch);
}

} // namespace
