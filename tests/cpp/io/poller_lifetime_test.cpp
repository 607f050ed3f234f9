// A Poller whose watches and descriptors are added and removed: inside callbacks, by a close
// without `remove`, and while copies of a descriptor stay open.

#include <penstock/io/poller.hpp>

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/callbacks.hpp"
#include "support/child_process.hpp"
#include "support/descriptors.hpp"

namespace {

using penstock::io::Poller;
using penstock::testing::Descriptor;
using penstock::testing::in_child_process;
using penstock::testing::SocketPair;
using penstock::testing::TestWatch;
namespace io = penstock::io;

/// Moves `file` to the descriptor number `number`.
Descriptor move_to(Descriptor file, int number) {
    if (file.get() == number) {
        return file;
    }
    return Descriptor(::dup3(file.get(), number, O_CLOEXEC));
}

/// A poller and a connection.
class PollerLifetime : public ::testing::Test {
protected:
    int turn() {
        const int count = poller.wait(0);
        poller.dispatch();
        return count;
    }

    /// Watches the near end of the connection for data.
    void add(TestWatch& watch) { ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable)); }

    /// Closes the near end without `remove`. Another connection gets its number.
    SocketPair reuse_number() { return reuse_number_of(pair); }

    static SocketPair reuse_number_of(SocketPair& closed) {
        const int number = closed.near.get();
        closed.near.close();
        SocketPair other;
        other.near = move_to(std::move(other.near), number);
        return other;
    }

    Poller poller;
    SocketPair pair;
};

/// Two watches that both have an event: of data or, if that is asked for, of room to write. The
/// callback that runs first gets the number of the other watch.
class PollerLifetimeOfTwo : public PollerLifetime {
protected:
    void dispatch_both(const std::function<void(std::size_t other)>& on_event,
                       std::uint32_t interest = io::readable) {
        for (std::size_t one = 0; one < 2; ++one) {
            watches[one] = std::make_unique<TestWatch>([=](TestWatch&) { on_event(1 - one); });
            ASSERT_FALSE(poller.add(*watches[one], pairs[one].near.get(), interest));
            if (interest == io::readable) {
                write_byte(pairs[one].far);
            }
        }
        EXPECT_EQ(turn(), 2);
    }

    /// The first callback calls `replace` with the number of the other watch, whose event must not
    /// reach the successor that it puts in the place of that watch.
    void expect_no_event_for_successor(const std::function<void(std::size_t)>& replace) {
        dispatch_both([&](std::size_t other) {
            if (watches[other]) {
                replace(other);
            }
        });
        EXPECT_EQ(successor.calls(), 0U) << "the new watch's descriptor was never readable";
        poller.remove(successor);
    }

    void TearDown() override {
        for (const auto& watch : watches) {
            if (watch) {
                poller.remove(*watch);
            }
        }
    }

    std::array<SocketPair, 2> pairs;
    std::array<std::unique_ptr<TestWatch>, 2> watches;
    TestWatch successor;
};

TEST_F(PollerLifetime, WatchMayRemoveItselfInItsCallback) {
    TestWatch watch([&](TestWatch& self) { poller.remove(self); });
    add(watch);
    write_byte(pair.far);
    turn();
    EXPECT_EQ(turn(), 0);
    EXPECT_EQ(watch.calls(), 1U);
}

TEST_F(PollerLifetime, WatchMayDestroyItselfInItsCallback) {
    auto watch = std::make_unique<TestWatch>();
    watch->function = [&](TestWatch& self) {
        poller.remove(self);
        watch.reset();
    };
    add(*watch);
    write_byte(pair.far);
    EXPECT_EQ(turn(), 1);
    EXPECT_EQ(watch, nullptr);
    EXPECT_EQ(turn(), 0);
}

TEST_F(PollerLifetimeOfTwo, DestroyedWatchGetsNoEventThatWasAlreadyFetched) {
    std::size_t calls = 0;
    dispatch_both([&](std::size_t other) {
        ++calls;
        poller.remove(*watches[other]);
        watches[other].reset();
    });
    EXPECT_EQ(calls, 1U) << "whichever came first has destroyed the other one";
}

TEST_F(PollerLifetimeOfTwo, EventFetchedBeforeItsInterestWasDroppedIsNotReported) {
    dispatch_both(
        [&](std::size_t other) { ASSERT_FALSE(poller.update(*watches[other], io::readable)); },
        io::readable | io::writable);
    EXPECT_EQ(watches[0]->calls() + watches[1]->calls(), 1U);
}

TEST_F(PollerLifetimeOfTwo, InterestZeroDropsAnEventThatWasAlreadyFetched) {
    dispatch_both([&](std::size_t other) { ASSERT_FALSE(poller.update(*watches[other], 0)); });
    EXPECT_EQ(watches[0]->calls() + watches[1]->calls(), 1U);
}

TEST_F(PollerLifetimeOfTwo, WatchAddedInACallbackDoesNotGetItsPredecessorsEvent) {
    expect_no_event_for_successor([&](std::size_t other) {
        poller.remove(*watches[other]);
        watches[other].reset();
        penstock::testing::drain(pairs[other].near.get());
        ASSERT_FALSE(poller.add(successor, pairs[other].near.get(), io::readable));
    });
}

TEST_F(PollerLifetime, NewWatchTakesOverANumberThatWasClosedWithoutRemove) {
    TestWatch old_watch;
    add(old_watch);
    const SocketPair second = reuse_number();
    TestWatch new_watch;
    ASSERT_FALSE(poller.add(new_watch, second.near.get(), io::readable));
    EXPECT_EQ(poller.watch_of(second.near.get()), &new_watch);
    EXPECT_EQ(old_watch.fd, -1);
    EXPECT_EQ(poller.update(old_watch, io::writable), std::errc::bad_file_descriptor);
    poller.remove(old_watch);
    write_byte(second.far);
    EXPECT_EQ(turn(), 1);
    EXPECT_EQ(old_watch.calls(), 0U);
    EXPECT_EQ(new_watch.calls(), 1U) << "the old watch's removal must leave the new one alone";
    poller.remove(new_watch);
}

TEST_F(PollerLifetimeOfTwo, TakeOverInACallbackDropsTheOldWatchsEvent) {
    SocketPair quiet;
    expect_no_event_for_successor([&](std::size_t other) {
        quiet = reuse_number_of(pairs[other]);
        ASSERT_FALSE(poller.add(successor, quiet.near.get(), io::readable));
        watches[other].reset();
    });
}

TEST_F(PollerLifetime, UpdateAfterTheNumberWasReusedWatchesTheNewFile) {
    TestWatch watch;
    add(watch);
    const SocketPair second = reuse_number();
    ASSERT_FALSE(poller.update(watch, io::readable | io::writable));
    EXPECT_EQ(turn(), 1);
    EXPECT_EQ(watch.events, (std::vector<std::uint32_t>{io::writable}));
    poller.remove(watch);
}

TEST_F(PollerLifetime, ConfirmationWatchesTheFileThatTheNumberNamesNow) {
    for (const bool copied : {false, true}) {
        SocketPair first;
        TestWatch watch;
        ASSERT_FALSE(poller.add(watch, first.near.get(), io::readable));
        const Descriptor copy =
            copied ? Descriptor(::fcntl(first.near.get(), F_DUPFD_CLOEXEC, 0)) : Descriptor();
        const SocketPair second = reuse_number_of(first);
        ASSERT_FALSE(poller.update(watch, io::readable)) << "the kernel is not asked";
        write_byte(second.far);
        EXPECT_EQ(turn(), 0);
        ASSERT_FALSE(poller.confirm(watch, io::readable));
        if (copied) {
            write_byte(first.far);
        }
        turn();
        EXPECT_EQ(watch.events, (std::vector<std::uint32_t>{io::readable}));
        penstock::testing::drain(second.near.get());
        EXPECT_EQ(turn(), 0) << "a copy of the first file must not keep the loop awake";
        poller.remove(watch);
    }
}

TEST_F(PollerLifetimeOfTwo, ConfirmationDropsTheEventOfTheFileThatWasClosed) {
    SocketPair quiet;
    dispatch_both([&](std::size_t other) {
        quiet = reuse_number_of(pairs[other]);
        ASSERT_FALSE(poller.confirm(*watches[other], io::readable));
    });
    EXPECT_EQ(watches[0]->calls() + watches[1]->calls(), 1U);
}

TEST_F(PollerLifetime, ConfirmationOfAClosedDescriptorIsAnErrorAndChangesNothing) {
    TestWatch watch;
    add(watch);
    pair.near.close();
    EXPECT_EQ(poller.confirm(watch, io::readable), std::errc::bad_file_descriptor);
    EXPECT_EQ(watch.interest, std::uint32_t{io::readable});
    poller.remove(watch);
}

TEST_F(PollerLifetime, SecondWatchOfOneDescriptorTakesItFromTheFirst) {
    for (const std::uint32_t interest : {std::uint32_t{io::readable}, std::uint32_t{0}}) {
        auto first = std::make_unique<TestWatch>();
        TestWatch second;
        add(*first);
        ASSERT_FALSE(poller.add(second, pair.near.get(), interest));
        EXPECT_EQ(first->fd, -1);
        poller.remove(*first);
        first.reset();
        write_byte(pair.far);
        EXPECT_EQ(turn(), interest == 0 ? 0 : 1);
        EXPECT_EQ(second.calls(), interest == 0 ? 0U : 1U);
        poller.remove(second);
        penstock::testing::drain(pair.near.get());
    }
}

TEST_F(PollerLifetime, FailedTakeOverLeavesTheOldWatchInPlace) {
    TestWatch old_watch;
    add(old_watch);
    const int number = pair.near.get();
    pair.near.close();
    const Descriptor file =
        move_to(Descriptor(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), number);
    TestWatch new_watch;
    EXPECT_EQ(poller.add(new_watch, number, io::readable), std::errc::operation_not_permitted);
    EXPECT_EQ(poller.watch_of(number), &old_watch);
    EXPECT_EQ(new_watch.fd, -1);
    poller.remove(old_watch);
}

// The kernel removes a registration when the last copy of the descriptor is closed, and a child
// process may hold a copy. Until then it reports events that no epoll_ctl can stop.
TEST_F(PollerLifetime, WatchRemovedAfterItsDescriptorWasClosedGetsNoEventOfACopy) {
    const Descriptor copy(::fcntl(pair.near.get(), F_DUPFD_CLOEXEC, 0));
    auto watch = std::make_unique<TestWatch>();
    add(*watch);
    pair.near.close();
    poller.remove(*watch);
    watch.reset();
    write_byte(pair.far);
    turn();
    EXPECT_EQ(turn(), 0) << "an event without a watch must not keep the loop awake";
}

TEST_F(PollerLifetime, WatchDestroyedAfterATakeOverGetsNoEventOfACopy) {
    const Descriptor copy(::fcntl(pair.near.get(), F_DUPFD_CLOEXEC, 0));
    auto old_watch = std::make_unique<TestWatch>();
    add(*old_watch);
    const SocketPair second = reuse_number();
    TestWatch new_watch;
    ASSERT_FALSE(poller.add(new_watch, second.near.get(), io::readable));
    poller.remove(*old_watch);
    old_watch.reset();
    write_byte(pair.far);
    turn();
    EXPECT_EQ(new_watch.calls(), 0U) << "only the closed descriptor's copy is readable";
    EXPECT_EQ(turn(), 0);
    write_byte(second.far);
    EXPECT_EQ(turn(), 1);
    EXPECT_EQ(new_watch.calls(), 1U);
    poller.remove(new_watch);
}

TEST_F(PollerLifetime, ForgottenWatchGetsNoEventAndItsNumberIsFree) {
    TestWatch old_watch;
    add(old_watch);
    const SocketPair second = reuse_number();
    poller.forget(old_watch);
    poller.forget(old_watch);
    EXPECT_EQ(old_watch.fd, -1);
    EXPECT_EQ(poller.watch_of(second.near.get()), nullptr);
    TestWatch new_watch;
    ASSERT_FALSE(poller.add(new_watch, second.near.get(), io::readable));
    write_byte(second.far);
    turn();
    EXPECT_EQ(old_watch.calls(), 0U);
    EXPECT_EQ(new_watch.calls(), 1U);
    poller.remove(new_watch);
}

TEST_F(PollerLifetime, ForgottenDescriptorThatIsStillOpenCanBeAddedAgain) {
    TestWatch watch;
    add(watch);
    poller.forget(watch);
    write_byte(pair.far);
    turn();
    EXPECT_EQ(watch.calls(), 0U);
    EXPECT_EQ(turn(), 0) << "a registration without a watch must not keep the loop awake";
    add(watch);
    turn();
    EXPECT_EQ(watch.calls(), 1U);
    poller.remove(watch);
}

TEST_F(PollerLifetime, OtherWatchesStayWatchedWhenAnOrphanedRegistrationIsDropped) {
    const Descriptor copy(::fcntl(pair.near.get(), F_DUPFD_CLOEXEC, 0));
    TestWatch gone;
    add(gone);
    std::array<SocketPair, 4> pairs;
    TestWatch level;
    TestWatch edge;
    TestWatch silent;
    TestWatch closed;
    ASSERT_FALSE(poller.add(level, pairs[0].near.get(), io::readable));
    ASSERT_FALSE(poller.add(edge, pairs[1].near.get(), io::readable, EPOLLET));
    ASSERT_FALSE(poller.add(silent, pairs[2].near.get(), io::readable));
    ASSERT_FALSE(poller.update(silent, 0));
    ASSERT_FALSE(poller.add(closed, pairs[3].near.get(), io::readable));
    pairs[3].near.close();
    const int handle = poller.native_handle();
    pair.near.close();
    poller.remove(gone);
    write_byte(pair.far);
    turn();
    EXPECT_EQ(turn(), 0);
    for (const SocketPair* each : {&pairs[0], &pairs[1], &pairs[2]}) {
        write_byte(each->far);
    }
    EXPECT_EQ(turn(), 2);
    EXPECT_EQ(turn(), 1) << "only the level-triggered one is reported again";
    EXPECT_EQ(level.calls(), 2U);
    EXPECT_EQ(edge.calls(), 1U);
    EXPECT_EQ(silent.calls(), 0U);
    EXPECT_EQ(poller.native_handle(), handle);
    for (TestWatch* watch : {&level, &edge, &silent, &closed}) {
        poller.remove(*watch);
    }
}

TEST_F(PollerLifetime, DroppingAnOrphanGivesNoWatchAnotherFile) {
    SocketPair closed;
    const Descriptor copy(::fcntl(pair.near.get(), F_DUPFD_CLOEXEC, 0));
    TestWatch gone;
    TestWatch stale;
    add(gone);
    ASSERT_FALSE(poller.add(stale, closed.near.get(), io::readable));
    const SocketPair other = reuse_number_of(closed); // never added to the poller
    write_byte(other.far);
    pair.near.close();
    poller.remove(gone);
    write_byte(pair.far);
    turn();
    EXPECT_EQ(turn(), 0);
    EXPECT_EQ(stale.calls(), 0U);
    poller.remove(stale);
}

// The parent uses the same epoll instance.
TEST_F(PollerLifetime, RemovalInAForkedChildKeepsTheParentsWatch) {
    TestWatch watch;
    TestWatch other;
    add(watch);
    ASSERT_FALSE(poller.add(other, pair.far.get(), io::writable));
    EXPECT_EQ(in_child_process([&] {
                  poller.remove(watch);
                  return poller.update(other, 0) ? 1 : 0;
              }),
              0);
    write_byte(pair.far);
    EXPECT_EQ(turn(), 2);
    EXPECT_EQ(watch.calls(), 1U);
    EXPECT_EQ(other.calls(), 1U);
}

TEST_F(PollerLifetime, AForkedChildCanAddWatchesOfItsOwn) {
    const SocketPair more;
    TestWatch watch;
    TestWatch childs;
    add(watch);
    write_byte(pair.far);
    EXPECT_EQ(in_child_process([&] {
                  if (poller.add(childs, more.near.get(), io::readable)) {
                      return 1;
                  }
                  write_byte(more.far);
                  return turn() == 2 && watch.calls() == 1 && childs.calls() == 1 ? 0 : 2;
              }),
              0);
    EXPECT_EQ(turn(), 1); // no event of the child
    EXPECT_EQ(watch.calls(), 1U);
}

} // namespace
