// A random program on one loop: connections, timers and work are added and removed at any time,
// also inside callbacks and by closing a descriptor without `remove`. Removed objects are destroyed
// at once, so that AddressSanitizer reports a late call to them.

#include <penstock/io/event_loop.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/descriptors.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::io::EventLoop;
using penstock::io::monotonic_now;
using penstock::io::MonotonicTime;
using penstock::io::Timer;
using penstock::io::Watch;
using penstock::io::Work;
using penstock::testing::Descriptor;
using penstock::testing::SocketPair;
namespace io = penstock::io;

class RandomProgram {
public:
    explicit RandomProgram(std::uint64_t seed) : random_(seed) {}

    ~RandomProgram() {
        for (const auto& connection : connections_) {
            loop_.poller().remove(*connection);
        }
        for (Alarm* alarm : alarms_) {
            loop_.timers().cancel(*alarm);
            delete alarm;
        }
    }
    RandomProgram(const RandomProgram&) = delete;
    RandomProgram& operator=(const RandomProgram&) = delete;

    void run(int steps) {
        std::atomic<int> foreign_runs{0};
        std::vector<ForeignJob> foreign(500, ForeignJob(foreign_runs));
        std::thread poster([&] {
            for (ForeignJob& job : foreign) {
                loop_.post(job);
                std::this_thread::yield();
            }
        });
        for (int step = 0; step < steps; ++step) {
            act();
            act();
            loop_.run_once(chance(8) ? 20'000 : 0);
        }
        poster.join();
        settle();
        EXPECT_EQ(foreign_runs.load(), 500);
    }

private:
    struct Connection : Watch {
        explicit Connection(RandomProgram& owner) : Watch(&on_event), program(owner) {}

        static void on_event(Watch& watch, std::uint32_t events) {
            auto& self = static_cast<Connection&>(watch);
            self.program.on_connection(self, events);
        }

        RandomProgram& program;
        SocketPair ends;
        Descriptor copy; ///< keeps the kernel's registration alive when `ends.near` is closed
        std::size_t written = 0;
        std::size_t received = 0;
    };

    struct Alarm : Timer {
        explicit Alarm(RandomProgram& owner) : Timer(&on_due), program(owner) {}

        static void on_due(Work& due) {
            auto& self = static_cast<Alarm&>(*reinterpret_cast<Timer*>(&due));
            self.program.on_alarm(self);
        }

        RandomProgram& program;
    };

    struct Job : Work {
        explicit Job(RandomProgram& owner) : Work(&on_turn), program(owner) {}

        static void on_turn(Work& work) {
            auto& self = static_cast<Job&>(work);
            RandomProgram& owner = self.program;
            delete &self;
            --owner.jobs_;
            owner.act_at_random();
        }

        RandomProgram& program;
    };

    struct ForeignJob : Work {
        explicit ForeignJob(std::atomic<int>& counter) : Work(&on_turn), runs(&counter) {}

        static void on_turn(Work& work) { static_cast<ForeignJob&>(work).runs->fetch_add(1); }

        std::atomic<int>* runs;
    };

    bool chance(unsigned out_of) { return random_() % out_of == 0; }

    std::uint32_t random_interest() {
        constexpr std::uint32_t both = io::readable | io::writable;
        return static_cast<std::uint32_t>(random_()) & both;
    }

    Connection* any_connection() {
        return connections_.empty() ? nullptr : connections_[random_() % connections_.size()].get();
    }

    void on_connection(Connection& connection, std::uint32_t events) {
        EXPECT_NE(connection.interest, 0U);
        EXPECT_EQ(events & ~(connection.interest | io::hung_up | io::failed), 0U);
        if ((events & io::readable) != 0) {
            char byte = 0;
            if (::read(connection.ends.near.get(), &byte, 1) == 1) {
                ++connection.received;
            }
        }
        act_at_random(); // may destroy `connection`
    }

    void on_alarm(Alarm& alarm) {
        EXPECT_LE(alarm.deadline, monotonic_now());
        EXPECT_FALSE(alarm.scheduled());
        EXPECT_EQ(alarms_.erase(&alarm), 1U);
        delete &alarm;
        act_at_random();
    }

    void act_at_random() {
        while (!settling_ && chance(2)) {
            act();
        }
    }

    void act() {
        switch (random_() % 14) {
        case 0:
        case 1:
            return open();
        case 2:
        case 3:
        case 4:
            return send();
        case 5:
            return change_interest();
        case 6:
            return remove_and_close();
        case 7:
            return close_without_removing();
        case 8:
            return remove_and_re_add();
        case 9:
        case 10:
            return set_alarm();
        case 11:
            return cancel_alarm();
        case 12:
            return add_job();
        default:
            if (chance(4)) {
                loop_.interrupt();
            }
        }
    }

    void open() {
        if (connections_.size() >= 30) {
            return;
        }
        auto connection = std::make_unique<Connection>(*this);
        const int fd = connection->ends.near.get();
        if (chance(4)) {
            connection->copy = Descriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
        }
        ASSERT_FALSE(loop_.poller().add(*connection, fd, random_interest()));
        EXPECT_EQ(loop_.poller().watch_of(fd), connection.get());
        connections_.push_back(std::move(connection));
    }

    void send() {
        if (Connection* connection = any_connection()) {
            // Fails if both copies of the other end are closed.
            connection->written += ::send(connection->ends.far.get(), "x", 1, MSG_NOSIGNAL) == 1;
        }
    }

    void change_interest() {
        Connection* connection = any_connection();
        if (connection != nullptr && connection->ends.near.get() >= 0) {
            EXPECT_FALSE(loop_.poller().update(*connection, random_interest()));
        }
    }

    void remove_and_close() {
        if (!connections_.empty()) {
            const auto place =
                connections_.begin() + static_cast<std::ptrdiff_t>(random_() % connections_.size());
            loop_.poller().remove(**place);
            connections_.erase(place);
        }
    }

    /// The watch stays until it is removed or another watch takes over its number.
    void close_without_removing() {
        if (Connection* connection = any_connection()) {
            connection->ends.near.close();
        }
    }

    void remove_and_re_add() {
        Connection* connection = any_connection();
        if (connection != nullptr && connection->ends.near.get() >= 0) {
            loop_.poller().remove(*connection);
            EXPECT_FALSE(
                loop_.poller().add(*connection, connection->ends.near.get(), random_interest()));
        }
    }

    void set_alarm() {
        if (alarms_.size() >= 30) {
            return;
        }
        auto* alarm = new Alarm(*this);
        alarms_.insert(alarm);
        const auto offset = static_cast<MonotonicTime>(random_() % 200'000) - 50'000;
        loop_.timers().add(*alarm, monotonic_now() + offset);
    }

    void cancel_alarm() {
        if (alarms_.empty()) {
            return;
        }
        // In half of the cases the earliest one, which is about to run.
        const std::size_t steps = chance(2) ? 0 : random_() % alarms_.size();
        Alarm* alarm = *std::next(alarms_.begin(), static_cast<std::ptrdiff_t>(steps));
        EXPECT_TRUE(alarm->scheduled());
        loop_.timers().cancel(*alarm);
        alarms_.erase(alarm);
        delete alarm;
    }

    void add_job() {
        if (jobs_ >= 30) {
            return;
        }
        ++jobs_;
        auto* job = new Job(*this);
        if (chance(2)) {
            loop_.schedule(*job);
        } else {
            loop_.post(*job);
        }
    }

    /// Starts no new operations, and ends all open ones.
    void settle() {
        settling_ = true;
        std::size_t awaited = 0;
        for (const auto& connection : connections_) {
            if (connection->ends.near.get() >= 0) {
                ASSERT_FALSE(loop_.poller().update(*connection, io::readable));
                awaited += connection->written - connection->received;
            }
        }
        // Each iteration receives a byte from every connection that has one.
        for (std::size_t turn = 0; turn < awaited + 100 || jobs_ > 0 || !alarms_.empty(); ++turn) {
            loop_.run_once(alarms_.empty() ? 0 : -1);
        }
        for (const auto& connection : connections_) {
            if (connection->ends.near.get() >= 0) {
                EXPECT_EQ(connection->received, connection->written);
            }
        }
        EXPECT_TRUE(loop_.timers().empty());
        EXPECT_FALSE(loop_.has_ready_work());
    }

    std::mt19937_64 random_;
    EventLoop loop_;
    std::vector<std::unique_ptr<Connection>> connections_;
    std::set<Alarm*> alarms_;
    int jobs_ = 0;
    bool settling_ = false;
};

class EventLoopModel : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(EventLoopModel, RandomProgramMakesEachCallOnceAndNoneAfterRemoval) {
    const penstock::testing::Watchdog watchdog;
    RandomProgram program(GetParam());
    program.run(3000);
}

INSTANTIATE_TEST_SUITE_P(Seeds, EventLoopModel, ::testing::Range<std::uint64_t>(1, 9));

} // namespace
