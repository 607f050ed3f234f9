#include <penstock/bridge/run_on.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <set>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/net/tcp_listener.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/sync/latch.hpp>
#include <penstock/task/race.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/unwrap.hpp>

#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::failure;
using penstock::Result;
using penstock::run_on;
using penstock::Task;
using penstock::unwrap;
using penstock::net::Endpoint;
using penstock::net::TcpListener;
using penstock::net::TcpStream;
using penstock::testing::Watchdog;

TEST(RunOn, RunsEachServerOnAThreadOfItsOwn) {
    const Watchdog watchdog;
    constexpr std::size_t loops = 4;
    penstock::sync::Latch started(loops);
    std::array<std::thread::id, loops> threads;
    EXPECT_TRUE(run_on(loops, [&](std::size_t index) -> Task<Result<>> {
        threads.at(index) = std::this_thread::get_id();
        co_return co_await started.arrive_and_wait();
    }));
    EXPECT_EQ(std::set(threads.begin(), threads.end()).size(), loops);
    EXPECT_EQ(threads.back(), std::this_thread::get_id());
}

TEST(RunOn, TheFirstErrorCancelsTheOthers) {
    const Watchdog watchdog;
    std::atomic<int> cancelled = 0;
    const Result<> ended = run_on(3, [&](std::size_t index) -> Task<Result<>> {
        if (index == 1) {
            co_return failure(std::errc::address_in_use);
        }
        const Result<> slept = co_await penstock::sleep_for(1h);
        cancelled += !slept && slept.error() == std::errc::operation_canceled ? 1 : 0;
        co_return slept;
    });
    EXPECT_EQ(ended.error(), std::errc::address_in_use);
    EXPECT_EQ(cancelled, 2);
}

TEST(RunOn, RethrowsAnException) {
    const Watchdog watchdog;
    EXPECT_THROW((void)run_on(2,
                              [&](std::size_t index) -> Task<Result<>> {
                                  if (index == 0) {
                                      throw std::runtime_error("broken contract");
                                  }
                                  co_return co_await penstock::sleep_for(1h);
                              }),
                 std::runtime_error);
}

TEST(RunOn, RefusesNoLoopsAndARunningLoop) {
    const auto server = [](std::size_t) -> Task<Result<>> { co_return Result<>(); };
    EXPECT_THROW((void)run_on(0, server), std::invalid_argument);
    EXPECT_TRUE(run_on(1, [&](std::size_t) -> Task<Result<>> {
        EXPECT_THROW((void)run_on(1, server), std::logic_error);
        co_return Result<>();
    }));
}

// A server on one port, with a listener for each loop, and clients that stop it together.
TEST(RunOn, SharesAPortBetweenItsLoops) {
    const Watchdog watchdog;
    constexpr std::size_t loops = 2;
    constexpr std::size_t clients = 40;
    const TcpListener::Options options{.reuse_port = true};
    // Holds the port. It is closed before the servers' clients come, so it gets no connections.
    Result<TcpListener> first = TcpListener::listen(Endpoint::loopback(0), options);
    ASSERT_TRUE(first);
    const Endpoint endpoint = *first->local_endpoint();
    penstock::sync::Latch listening(loops);
    penstock::sync::Event stop;
    std::atomic<std::size_t> served = 0;

    const auto accept_all = [&](TcpListener& listener) -> Task<Result<>> {
        for (;;) {
            TcpStream stream = co_await unwrap(listener.accept());
            co_await unwrap(stream.write_all("hello"));
            ++served;
        }
    };
    const auto server = [&](std::size_t) -> Task<Result<>> {
        TcpListener listener = co_await unwrap(TcpListener::listen(endpoint, options));
        listening.count_down();
        const auto ended = co_await penstock::race(accept_all(listener), stop.wait());
        co_return ended.index() == 0 ? std::get<0>(ended) : Result<>();
    };
    std::thread client([&] {
        const auto program = [&]() -> Task<Result<>> {
            co_await unwrap(listening.wait());
            first->close();
            for (std::size_t i = 0; i < clients; ++i) {
                TcpStream stream = co_await unwrap(TcpStream::connect(endpoint));
                std::array<char, 5> text{};
                co_await unwrap(stream.read_exactly(text));
            }
            co_return Result<>();
        };
        EXPECT_TRUE(penstock::run(program()));
        stop.set();
    });
    EXPECT_TRUE(run_on(loops, server));
    client.join();
    EXPECT_EQ(served, clients);
}

} // namespace
