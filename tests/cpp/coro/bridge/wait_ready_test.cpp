#include <penstock/bridge/wait_ready.hpp>

#include <array>
#include <chrono>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <penstock/owned_descriptor.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/timeout.hpp>

#include "coro/support/logs.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::OwnedDescriptor;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::wait_ready;
using penstock::testing::turns;
using penstock::testing::Watchdog;
namespace io = penstock::io;

class WaitReady : public ::testing::Test {
protected:
    void SetUp() override {
        std::array<int, 2> ends{};
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
        here.reset(ends[0]);
        there.reset(ends[1]);
    }

    OwnedDescriptor here;
    OwnedDescriptor there;
    Watchdog watchdog;
};

TEST_F(WaitReady, WaitsForData) {
    const auto sends = [this]() -> Task<> {
        co_await turns(3);
        EXPECT_EQ(::write(there.get(), "x", 1), 1);
    };
    const auto receives = [this]() -> Task<> {
        EXPECT_EQ(co_await wait_ready(here.get(), io::readable), io::readable);
        // Level-triggered: the byte is still there.
        EXPECT_EQ(co_await wait_ready(here.get(), io::readable | io::writable),
                  io::readable | io::writable);
    };
    const auto program = [&]() -> Task<> { (void)co_await penstock::all(receives(), sends()); };
    run(program());
}

TEST_F(WaitReady, TellsAHangUp) {
    const auto program = [this]() -> Task<> {
        there.reset();
        const Result<std::uint32_t> ready = co_await wait_ready(here.get(), io::readable);
        EXPECT_TRUE(ready);
        EXPECT_NE(*ready & io::hung_up, 0U);
    };
    run(program());
}

TEST_F(WaitReady, CanBeCancelledAndRepeated) {
    const auto program = [this]() -> Task<> {
        for (int i = 0; i < 3; ++i) {
            const auto ready = co_await penstock::timeout(std::chrono::milliseconds(1),
                                                          wait_ready(here.get(), io::readable));
            EXPECT_EQ(ready.error(), std::errc::timed_out);
        }
        EXPECT_EQ(co_await wait_ready(here.get(), io::writable), io::writable);
    };
    run(program());
}

TEST_F(WaitReady, RefusesASecondWaiterAndAClosedDescriptor) {
    const auto second = [this]() -> Task<> {
        EXPECT_EQ((co_await wait_ready(here.get(), io::writable)).error(),
                  std::errc::device_or_resource_busy);
        EXPECT_EQ(::write(there.get(), "x", 1), 1);
    };
    const auto first = [this]() -> Task<> {
        EXPECT_TRUE(co_await wait_ready(here.get(), io::readable));
    };
    const auto program = [&]() -> Task<> {
        (void)co_await penstock::all(first(), second());
        EXPECT_EQ((co_await wait_ready(-1, io::readable)).error(), std::errc::bad_file_descriptor);
    };
    run(program());
}

TEST_F(WaitReady, ARegularFileIsAlwaysReady) {
    std::string path = ::testing::TempDir() + "wait_readyXXXXXX";
    const OwnedDescriptor file(::mkstemp(path.data()));
    ::unlink(path.c_str());
    const auto program = [&]() -> Task<> {
        EXPECT_EQ(co_await wait_ready(file.get(), io::readable), io::readable);
    };
    run(program());
}

} // namespace
