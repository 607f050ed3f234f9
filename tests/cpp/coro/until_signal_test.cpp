// Servers that run until a signal.

#include <penstock/until_signal.hpp>

#include <penstock/signal.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/unwrap.hpp>

#include <chrono>
#include <csignal>
#include <stdexcept>
#include <system_error>

#include <gtest/gtest.h>

namespace {

using namespace penstock;
using namespace std::chrono_literals;

TEST(UntilSignal, ASignalStopsTheServerAndItsResultIsReturned) {
    for (const int number : {SIGINT, SIGTERM}) {
        int stops = 0;
        sync::Event stopped;
        const auto serve = [&]() -> Task<Result<>> {
            EXPECT_EQ(std::raise(number), 0);
            co_await unwrap(stopped.wait());
            co_return failure(std::errc::io_error); // what the server says in the end
        };
        const Result<> ended = run(until_signal(serve(), [&] {
            ++stops;
            stopped.set();
        }));
        EXPECT_EQ(ended.error(), std::errc::io_error);
        EXPECT_EQ(stops, 1);
    }
}

TEST(UntilSignal, AServerMayEndByItself) {
    const auto serve = []() -> Task<Result<>> { co_return Result<>(); };
    EXPECT_TRUE(run(until_signal(serve(), [] { ADD_FAILURE() << "stopped"; })));
}

TEST(UntilSignal, AHangUpReloadsAsOftenAsItComes) {
    int reloads = 0;
    sync::Event reloaded;
    const auto serve = [&]() -> Task<Result<>> {
        for (int each = 0; each < 3; ++each) {
            reloaded.reset();
            EXPECT_EQ(std::raise(SIGHUP), 0);
            co_await unwrap(reloaded.wait());
        }
        co_return Result<>();
    };
    EXPECT_TRUE(run(until_signal(
        serve(), [] {},
        [&] {
            ++reloads;
            reloaded.set();
        })));
    EXPECT_EQ(reloads, 3);
    // Without a function for it, the signal may be another's.
    const auto other = []() -> Task<Result<>> {
        const Result<Signal> taken = Signal::on({SIGHUP});
        EXPECT_TRUE(taken);
        EXPECT_EQ(Signal::on({SIGINT}).error(), std::errc::device_or_resource_busy);
        co_return Result<>();
    };
    EXPECT_TRUE(run(until_signal(other(), [] {})));
}

TEST(UntilSignal, AFurtherSignalCancelsTheServer) {
    sync::Event stopped;
    const auto serve = [&]() -> Task<Result<>> {
        EXPECT_EQ(std::raise(SIGTERM), 0);
        co_await unwrap(stopped.wait());
        EXPECT_EQ(std::raise(SIGINT), 0);
        const Result<> slept = co_await sleep_for(1h); // a client that does not end
        EXPECT_EQ(slept.error(), std::errc::operation_canceled);
        co_return slept;
    };
    EXPECT_EQ(run(until_signal(serve(), [&] { stopped.set(); })).error(),
              std::errc::operation_canceled);
}

TEST(UntilSignal, AnExceptionOfAFunctionEndsAll) {
    const auto serve = []() -> Task<Result<>> {
        EXPECT_EQ(std::raise(SIGHUP), 0);
        co_return co_await sleep_for(1h);
    };
    EXPECT_THROW((void)run(until_signal(
                     serve(), [] {}, [] { throw std::runtime_error("no certificate"); })),
                 std::runtime_error);
}

TEST(UntilSignal, ASignalThatIsTakenIsAnError) {
    const Result<Signal> taken = Signal::on({SIGTERM});
    ASSERT_TRUE(taken);
    const auto serve = []() -> Task<Result<>> {
        ADD_FAILURE() << "served";
        co_return Result<>();
    };
    EXPECT_EQ(run(until_signal(serve(), [] {})).error(), std::errc::device_or_resource_busy);
}

} // namespace
