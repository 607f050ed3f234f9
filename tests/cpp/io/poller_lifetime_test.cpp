// A Poller whose watches and descriptors are added and removed: inside callbacks, by a close
// without `remove`, and while copies of a descriptor stay open.

#include <penstock/io/poller.hpp>

#include <array>
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

int turn(Poller& poller) {
    const int count = poller.wait(0);
    poller.dispatch();
    return count;
}

/// Moves `file` to the descriptor number `number`.
Descriptor move_to(Descriptor file, int number) {
    if (file.get() == number) {
        return file;
    }
    return Descriptor(::dup3(file.get(), number, O_CLOEXEC));
}

TEST(PollerLifetime, WatchMayRemoveItselfInItsCallback) {
    Poller poller;
    const SocketPair pair;
    TestWatch watch([&](TestWatch& self) { poller.remove(self); });
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable));
    write_byte(pair.far);
    turn(poller);
    EXPECT_EQ(turn(poller), 0);
    EXPECT_EQ(watch.calls(), 1U);
}

TEST(PollerLifetime, WatchMayDestroyItselfInItsCallback) {
    Poller poller;
    const SocketPair pair;
    auto watch = std::make_unique<TestWatch>();
    watch->function = [&](TestWatch& self) {
        poller.remove(self);
        watch.reset();
    };
    ASSERT_FALSE(poller.add(*watch, pair.near.get(), io::readable));
    write_byte(pair.far);
    EXPECT_EQ(turn(poller), 1);
    EXPECT_EQ(watch, nullptr);
    EXPECT_EQ(turn(poller), 0);
}

TEST(PollerLifetime, DestroyedWatchGetsNoEventThatWasAlreadyFetched) {
    Poller poller;
    std::array<SocketPair, 2> pairs;
    std::array<std::unique_ptr<TestWatch>, 2> watches;
    std::size_t calls = 0;
    for (std::size_t one = 0; one < 2; ++one) {
        watches[one] = std::make_unique<TestWatch>([&, one](TestWatch&) {
            ++calls;
            poller.remove(*watches[1 - one]);
            watches[1 - one].reset();
        });
        ASSERT_FALSE(poller.add(*watches[one], pairs[one].near.get(), io::readable));
        write_byte(pairs[one].far);
    }
    EXPECT_EQ(turn(poller), 2);
    EXPECT_EQ(calls, 1U) << "whichever came first has destroyed the other one";
    for (const auto& watch : watches) {
        if (watch) {
            poller.remove(*watch);
        }
    }
}

TEST(PollerLifetime, EventFetchedBeforeItsInterestWasDroppedIsNotReported) {
    Poller poller;
    std::array<SocketPair, 2> pairs;
    std::array<std::unique_ptr<TestWatch>, 2> watches;
    for (std::size_t one = 0; one < 2; ++one) {
        watches[one] = std::make_unique<TestWatch>(
            [&, one](TestWatch&) { ASSERT_FALSE(poller.update(*watches[1 - one], io::readable)); });
        ASSERT_FALSE(poller.add(*watches[one], pairs[one].near.get(), io::readable | io::writable));
    }
    EXPECT_EQ(turn(poller), 2);
    EXPECT_EQ(watches[0]->calls() + watches[1]->calls(), 1U);
    for (const auto& watch : watches) {
        poller.remove(*watch);
    }
}

TEST(PollerLifetime, InterestZeroDropsAnEventThatWasAlreadyFetched) {
    Poller poller;
    std::array<SocketPair, 2> pairs;
    std::array<std::unique_ptr<TestWatch>, 2> watches;
    for (std::size_t one = 0; one < 2; ++one) {
        watches[one] = std::make_unique<TestWatch>(
            [&, one](TestWatch&) { ASSERT_FALSE(poller.update(*watches[1 - one], 0)); });
        ASSERT_FALSE(poller.add(*watches[one], pairs[one].near.get(), io::readable));
        write_byte(pairs[one].far);
    }
    EXPECT_EQ(turn(poller), 2);
    EXPECT_EQ(watches[0]->calls() + watches[1]->calls(), 1U);
    for (const auto& watch : watches) {
        poller.remove(*watch);
    }
}

/// Two watches have an event. The callback that runs first calls `replace(poller, pair, watch,
/// successor)` with the other one, whose event must not reach `successor`.
template <typename Replace> void expect_no_event_for_successor(Replace replace) {
    Poller poller;
    std::array<SocketPair, 2> pairs;
    std::array<std::unique_ptr<TestWatch>, 2> watches;
    TestWatch successor;
    for (std::size_t one = 0; one < 2; ++one) {
        watches[one] = std::make_unique<TestWatch>([&, other = 1 - one](TestWatch&) {
            if (watches[other]) {
                replace(poller, pairs[other], watches[other], successor);
            }
        });
        ASSERT_FALSE(poller.add(*watches[one], pairs[one].near.get(), io::readable));
        write_byte(pairs[one].far);
    }
    EXPECT_EQ(turn(poller), 2);
    EXPECT_EQ(successor.calls(), 0U) << "the new watch's descriptor was never readable";
    poller.remove(successor);
    for (const auto& watch : watches) {
        if (watch) {
            poller.remove(*watch);
        }
    }
}

TEST(PollerLifetime, WatchAddedInACallbackDoesNotGetItsPredecessorsEvent) {
    expect_no_event_for_successor([](Poller& poller, SocketPair& pair,
                                     std::unique_ptr<TestWatch>& watch, TestWatch& successor) {
        poller.remove(*watch);
        watch.reset();
        penstock::testing::drain(pair.near.get());
        ASSERT_FALSE(poller.add(successor, pair.near.get(), io::readable));
    });
}

TEST(PollerLifetime, NewWatchTakesOverANumberThatWasClosedWithoutRemove) {
    Poller poller;
    SocketPair first;
    TestWatch old_watch;
    ASSERT_FALSE(poller.add(old_watch, first.near.get(), io::readable));
    const int number = first.near.get();
    first.near.close();
    SocketPair second;
    second.near = move_to(std::move(second.near), number);
    TestWatch new_watch;
    ASSERT_FALSE(poller.add(new_watch, number, io::readable));
    EXPECT_EQ(poller.watch_of(number), &new_watch);
    EXPECT_EQ(old_watch.fd, -1);
    EXPECT_EQ(poller.update(old_watch, io::writable), std::errc::bad_file_descriptor);
    poller.remove(old_watch);
    write_byte(second.far);
    EXPECT_EQ(turn(poller), 1);
    EXPECT_EQ(old_watch.calls(), 0U);
    EXPECT_EQ(new_watch.calls(), 1U) << "the old watch's removal must leave the new one alone";
    poller.remove(new_watch);
}

TEST(PollerLifetime, TakeOverInACallbackDropsTheOldWatchsEvent) {
    SocketPair quiet;
    expect_no_event_for_successor([&](Poller& poller, SocketPair& pair,
                                      std::unique_ptr<TestWatch>& watch, TestWatch& successor) {
        const int number = pair.near.get();
        pair.near = Descriptor();
        quiet.near = move_to(std::move(quiet.near), number);
        ASSERT_FALSE(poller.add(successor, number, io::readable));
        watch.reset();
    });
}

TEST(PollerLifetime, UpdateAfterTheNumberWasReusedWatchesTheNewFile) {
    Poller poller;
    SocketPair first;
    TestWatch watch;
    ASSERT_FALSE(poller.add(watch, first.near.get(), io::readable));
    const int number = first.near.get();
    first.near.close();
    SocketPair second;
    second.near = move_to(std::move(second.near), number);
    ASSERT_FALSE(poller.update(watch, io::readable | io::writable));
    EXPECT_EQ(turn(poller), 1);
    EXPECT_EQ(watch.events, (std::vector<std::uint32_t>{io::writable}));
    poller.remove(watch);
}

TEST(PollerLifetime, ConfirmationWatchesTheFileThatTheNumberNamesNow) {
    for (const bool copied : {false, true}) {
        Poller poller;
        SocketPair first;
        TestWatch watch;
        ASSERT_FALSE(poller.add(watch, first.near.get(), io::readable));
        const int number = first.near.get();
        const Descriptor copy =
            copied ? Descriptor(::fcntl(number, F_DUPFD_CLOEXEC, 0)) : Descriptor();
        first.near.close();
        SocketPair second;
        second.near = move_to(std::move(second.near), number);
        ASSERT_FALSE(poller.update(watch, io::readable)) << "the kernel is not asked";
        write_byte(second.far);
        EXPECT_EQ(turn(poller), 0);
        ASSERT_FALSE(poller.confirm(watch, io::readable));
        if (copied) {
            write_byte(first.far);
        }
        turn(poller);
        EXPECT_EQ(watch.events, (std::vector<std::uint32_t>{io::readable}));
        penstock::testing::drain(number);
        EXPECT_EQ(turn(poller), 0) << "a copy of the first file must not keep the loop awake";
        poller.remove(watch);
    }
}

TEST(PollerLifetime, ConfirmationDropsTheEventOfTheFileThatWasClosed) {
    Poller poller;
    std::array<SocketPair, 2> pairs;
    std::array<int, 2> numbers{pairs[0].near.get(), pairs[1].near.get()};
    SocketPair quiet;
    std::array<TestWatch, 2> watches;
    for (std::size_t i = 0; i < 2; ++i) {
        ASSERT_FALSE(poller.add(watches[i], numbers[i], io::readable));
        write_byte(pairs[i].far);
    }
    const auto replace_the_other = [&](std::size_t other) {
        pairs[other].near.close();
        quiet.near = move_to(std::move(quiet.near), numbers[other]);
        ASSERT_FALSE(poller.confirm(watches[other], io::readable));
    };
    watches[0].function = [&](TestWatch&) { replace_the_other(1); };
    watches[1].function = [&](TestWatch&) { replace_the_other(0); };
    EXPECT_EQ(turn(poller), 2);
    EXPECT_EQ(watches[0].calls() + watches[1].calls(), 1U);
    for (TestWatch& watch : watches) {
        poller.remove(watch);
    }
}

TEST(PollerLifetime, ConfirmationOfAClosedDescriptorIsAnErrorAndChangesNothing) {
    Poller poller;
    SocketPair pair;
    TestWatch watch;
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable));
    pair.near.close();
    EXPECT_EQ(poller.confirm(watch, io::readable), std::errc::bad_file_descriptor);
    EXPECT_EQ(watch.interest, std::uint32_t{io::readable});
    poller.remove(watch);
}

TEST(PollerLifetime, SecondWatchOfOneDescriptorTakesItFromTheFirst) {
    for (const std::uint32_t interest : {std::uint32_t{io::readable}, std::uint32_t{0}}) {
        Poller poller;
        const SocketPair pair;
        auto first = std::make_unique<TestWatch>();
        TestWatch second;
        ASSERT_FALSE(poller.add(*first, pair.near.get(), io::readable));
        ASSERT_FALSE(poller.add(second, pair.near.get(), interest));
        EXPECT_EQ(first->fd, -1);
        poller.remove(*first);
        first.reset();
        write_byte(pair.far);
        EXPECT_EQ(turn(poller), interest == 0 ? 0 : 1);
        EXPECT_EQ(second.calls(), interest == 0 ? 0U : 1U);
        poller.remove(second);
    }
}

TEST(PollerLifetime, FailedTakeOverLeavesTheOldWatchInPlace) {
    Poller poller;
    SocketPair pair;
    TestWatch old_watch;
    ASSERT_FALSE(poller.add(old_watch, pair.near.get(), io::readable));
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
TEST(PollerLifetime, WatchRemovedAfterItsDescriptorWasClosedGetsNoEventOfACopy) {
    Poller poller;
    SocketPair pair;
    const Descriptor copy(::fcntl(pair.near.get(), F_DUPFD_CLOEXEC, 0));
    auto watch = std::make_unique<TestWatch>();
    ASSERT_FALSE(poller.add(*watch, pair.near.get(), io::readable));
    pair.near.close();
    poller.remove(*watch);
    watch.reset();
    write_byte(pair.far);
    turn(poller);
    EXPECT_EQ(turn(poller), 0) << "an event without a watch must not keep the loop awake";
}

TEST(PollerLifetime, WatchDestroyedAfterATakeOverGetsNoEventOfACopy) {
    Poller poller;
    SocketPair first;
    const Descriptor copy(::fcntl(first.near.get(), F_DUPFD_CLOEXEC, 0));
    auto old_watch = std::make_unique<TestWatch>();
    ASSERT_FALSE(poller.add(*old_watch, first.near.get(), io::readable));
    const int number = first.near.get();
    first.near.close();
    SocketPair second;
    second.near = move_to(std::move(second.near), number);
    TestWatch new_watch;
    ASSERT_FALSE(poller.add(new_watch, number, io::readable));
    poller.remove(*old_watch);
    old_watch.reset();
    write_byte(first.far);
    turn(poller);
    EXPECT_EQ(new_watch.calls(), 0U) << "only the closed descriptor's copy is readable";
    EXPECT_EQ(turn(poller), 0);
    write_byte(second.far);
    EXPECT_EQ(turn(poller), 1);
    EXPECT_EQ(new_watch.calls(), 1U);
    poller.remove(new_watch);
}

TEST(PollerLifetime, ForgottenWatchGetsNoEventAndItsNumberIsFree) {
    Poller poller;
    SocketPair first;
    TestWatch old_watch;
    ASSERT_FALSE(poller.add(old_watch, first.near.get(), io::readable));
    const int number = first.near.get();
    first.near.close();
    SocketPair second;
    second.near = move_to(std::move(second.near), number);
    poller.forget(old_watch);
    poller.forget(old_watch);
    EXPECT_EQ(old_watch.fd, -1);
    EXPECT_EQ(poller.watch_of(number), nullptr);
    TestWatch new_watch;
    ASSERT_FALSE(poller.add(new_watch, number, io::readable));
    write_byte(second.far);
    turn(poller);
    EXPECT_EQ(old_watch.calls(), 0U);
    EXPECT_EQ(new_watch.calls(), 1U);
    poller.remove(new_watch);
}

TEST(PollerLifetime, ForgottenDescriptorThatIsStillOpenCanBeAddedAgain) {
    Poller poller;
    const SocketPair pair;
    TestWatch watch;
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable));
    poller.forget(watch);
    write_byte(pair.far);
    turn(poller);
    EXPECT_EQ(watch.calls(), 0U);
    EXPECT_EQ(turn(poller), 0) << "a registration without a watch must not keep the loop awake";
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable));
    turn(poller);
    EXPECT_EQ(watch.calls(), 1U);
    poller.remove(watch);
}

TEST(PollerLifetime, OtherWatchesStayWatchedWhenAnOrphanedRegistrationIsDropped) {
    Poller poller;
    SocketPair orphan;
    const Descriptor copy(::fcntl(orphan.near.get(), F_DUPFD_CLOEXEC, 0));
    TestWatch gone;
    ASSERT_FALSE(poller.add(gone, orphan.near.get(), io::readable));
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
    orphan.near.close();
    poller.remove(gone);
    write_byte(orphan.far);
    turn(poller);
    EXPECT_EQ(turn(poller), 0);
    for (const SocketPair* pair : {&pairs[0], &pairs[1], &pairs[2]}) {
        write_byte(pair->far);
    }
    EXPECT_EQ(turn(poller), 2);
    EXPECT_EQ(turn(poller), 1) << "only the level-triggered one is reported again";
    EXPECT_EQ(level.calls(), 2U);
    EXPECT_EQ(edge.calls(), 1U);
    EXPECT_EQ(silent.calls(), 0U);
    EXPECT_EQ(poller.native_handle(), handle);
    for (TestWatch* watch : {&level, &edge, &silent, &closed}) {
        poller.remove(*watch);
    }
}

TEST(PollerLifetime, DroppingAnOrphanGivesNoWatchAnotherFile) {
    Poller poller;
    SocketPair orphan;
    SocketPair closed;
    const Descriptor copy(::fcntl(orphan.near.get(), F_DUPFD_CLOEXEC, 0));
    TestWatch gone;
    TestWatch stale;
    ASSERT_FALSE(poller.add(gone, orphan.near.get(), io::readable));
    ASSERT_FALSE(poller.add(stale, closed.near.get(), io::readable));
    const int number = closed.near.get();
    closed.near.close();
    SocketPair other;
    other.near = move_to(std::move(other.near), number); // never added to the poller
    write_byte(other.far);
    orphan.near.close();
    poller.remove(gone);
    write_byte(orphan.far);
    turn(poller);
    EXPECT_EQ(turn(poller), 0);
    EXPECT_EQ(stale.calls(), 0U);
    poller.remove(stale);
}

// The parent uses the same epoll instance.
TEST(PollerLifetime, RemovalInAForkedChildKeepsTheParentsWatch) {
    Poller poller;
    const SocketPair pair;
    TestWatch watch;
    TestWatch other;
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable));
    ASSERT_FALSE(poller.add(other, pair.far.get(), io::writable));
    EXPECT_EQ(in_child_process([&] {
                  poller.remove(watch);
                  return poller.update(other, 0) ? 1 : 0;
              }),
              0);
    write_byte(pair.far);
    EXPECT_EQ(turn(poller), 2);
    EXPECT_EQ(watch.calls(), 1U);
    EXPECT_EQ(other.calls(), 1U);
}

TEST(PollerLifetime, AForkedChildCanAddWatchesOfItsOwn) {
    Poller poller;
    const SocketPair pair;
    const SocketPair more;
    TestWatch watch;
    TestWatch childs;
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable));
    write_byte(pair.far);
    EXPECT_EQ(in_child_process([&] {
                  if (poller.add(childs, more.near.get(), io::readable)) {
                      return 1;
                  }
                  write_byte(more.far);
                  return turn(poller) == 2 && watch.calls() == 1 && childs.calls() == 1 ? 0 : 2;
              }),
              0);
    EXPECT_EQ(turn(poller), 1); // no event of the child
    EXPECT_EQ(watch.calls(), 1U);
}

} // namespace
