// A forked child may run its own loops. Nothing that it closes is closed for its parent.

#include <penstock/penstock.hpp>

#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "coro/support/tcp_pair.hpp"
#include "support/child_process.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

// The child lacks the parent's threads, so what they own has no owner there. That is not a leak.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
    return "leak:penstock::detail::WorkerPool::start_thread";
}
#endif
#endif

namespace {

using namespace std::chrono_literals;
using penstock::PipeEnds;
using penstock::Result;
using penstock::run;
using penstock::Scope;
using penstock::Task;
using penstock::testing::child_may_start_threads;
using penstock::testing::connect_pair;
using penstock::testing::expect;
using penstock::testing::in_child_process;
using penstock::testing::listen_on_loopback;
using penstock::testing::TcpPair;
using penstock::testing::TemporaryFolder;
using penstock::testing::Watchdog;
namespace fs = penstock::fs;
namespace net = penstock::net;
namespace process = penstock::process;

Task<int> seven_from_a_thread() {
    co_return expect(co_await penstock::to_thread([] { return 7; }));
}

TEST(Fork, AChildStartsItsOwnThreads) {
    if (!child_may_start_threads) {
        GTEST_SKIP() << "the sanitizer forbids threads in a child";
    }
    EXPECT_EQ(run(seven_from_a_thread()), 7); // the pool now has an idle thread
    EXPECT_EQ(in_child_process([] { return run(seven_from_a_thread()); }), 7);
    EXPECT_EQ(run(seven_from_a_thread()), 7);
}

TEST(Fork, AChildMayExit) {
    EXPECT_EQ(run(seven_from_a_thread()), 7);
    EXPECT_EQ(in_child_process([]() -> int { std::exit(3); }), 3);
}

TEST(Fork, AChildThatHasUsedThreadsMayExit) {
    if (!child_may_start_threads) {
        GTEST_SKIP() << "the sanitizer forbids threads in a child";
    }
    EXPECT_EQ(run(seven_from_a_thread()), 7);
    EXPECT_EQ(in_child_process([]() -> int { std::exit(run(seven_from_a_thread())); }), 7);
}

TEST(Fork, AListenerClosedInTheChildStaysOpenInTheParent) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        net::TcpListener listener = listen_on_loopback();
        // It has waited, so it is registered.
        EXPECT_EQ((co_await penstock::timeout(1ms, listener.accept())).error(),
                  std::errc::timed_out);
        EXPECT_EQ(in_child_process([&] {
                      listener.close();
                      return 0;
                  }),
                  0);
        const auto connect = [&]() -> Task<> {
            expect(co_await penstock::yield());
            expect(co_await net::TcpStream::connect(expect(listener.local_endpoint())));
        };
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(connect());
            EXPECT_TRUE(co_await penstock::timeout(30s, listener.accept()));
        });
    };
    run(program());
}

TEST(Fork, StreamsClosedInTheChildStayOpenInTheParent) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        PipeEnds pipe = expect(penstock::make_pipe());
        std::array<char, 4> buffer{};
        const auto read = [&]() -> Task<> {
            EXPECT_EQ(co_await penstock::timeout(30s, pipe.reader.read(buffer)), 1U);
        };
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(read());
            expect(co_await penstock::yield()); // it waits
            EXPECT_EQ(in_child_process([&] {
                          pipe.reader.close();
                          return 0;
                      }),
                      0);
            expect(co_await pipe.writer.write_all("x"));
        });
    };
    run(program());
}

TEST(Fork, ATasksChildMayRunALoop) {
    const Watchdog watchdog;
    const auto talk = []() -> Task<int> {
        TcpPair pair = co_await connect_pair();
        expect(co_await pair.near.write_all("x"));
        std::array<char, 4> buffer{};
        const auto late = [&]() -> Task<Result<>> {
            expect(co_await penstock::sleep_for(1ms));
            co_return co_await pair.near.write_all("y");
        };
        EXPECT_EQ(co_await pair.far.read(buffer), 1U);
        const auto both = expect(co_await penstock::all(pair.far.read(buffer), late()));
        co_return std::get<0>(both) == 1 ? 5 : 1;
    };
    const auto program = [&]() -> Task<> {
        expect(co_await penstock::yield());
        EXPECT_EQ(in_child_process([&] { return run(talk()); }), 5);
        EXPECT_EQ(co_await talk(), 5);
    };
    run(program());
}

// The child's copy of a loop is independent: it takes no event from its parent.
TEST(Fork, AChildsCopyOfALoopIsIndependent) {
    const Watchdog watchdog;
    penstock::EventLoop loop;
    PipeEnds pipe = expect(penstock::make_pipe());
    const auto read_late = [&]() -> Task<int> {
        std::array<char, 4> buffer{};
        const auto write = [&]() -> Task<Result<>> {
            expect(co_await penstock::sleep_for(1ms));
            co_return co_await pipe.writer.write_all("x");
        };
        const auto both = expect(co_await penstock::all(pipe.reader.read(buffer), write()));
        co_return std::get<0>(both) == 1 ? 5 : 1;
    };
    EXPECT_EQ(loop.run(read_late()), 5);
    EXPECT_EQ(in_child_process([&] { return loop.run(read_late()); }), 5);
    EXPECT_EQ(loop.run(read_late()), 5);
}

TEST(Fork, AUnixListenersFileStaysForTheParent) {
    const TemporaryFolder folder;
    const std::string path = folder.path("socket");
    net::UnixListener listener =
        expect(net::UnixListener::listen(expect(net::UnixEndpoint::path(path))));
    EXPECT_EQ(in_child_process([&] {
                  listener.close();
                  return 0;
              }),
              0);
    struct stat status{};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    listener.close();
    EXPECT_NE(::stat(path.c_str(), &status), 0);
}

TEST(Fork, ATemporaryDirectoryStaysForTheParent) {
    const auto program = []() -> Task<> {
        std::optional<fs::TemporaryDirectory> folder =
            expect(co_await fs::TemporaryDirectory::create());
        const std::string path = folder->path();
        EXPECT_EQ(in_child_process([&] {
                      folder.reset();
                      return 0;
                  }),
                  0);
        struct stat status{};
        EXPECT_EQ(::stat(path.c_str(), &status), 0);
        folder.reset();
        EXPECT_NE(::stat(path.c_str(), &status), 0);
    };
    run(program());
}

TEST(Fork, KillOnCloseWorksInTheParentOnly) {
    const auto program = []() -> Task<> {
        std::optional<process::Child> child = expect(process::Command("cat")
                                                         .input(process::Stdio::pipe())
                                                         .output(process::Stdio::pipe())
                                                         .kill_on_close()
                                                         .spawn());
        EXPECT_EQ(in_child_process([&] {
                      child.reset();
                      return 0;
                  }),
                  0);
        // If it had been killed, its end of the pipe would be closed.
        EXPECT_TRUE(co_await child->input.write_all("x"));
        std::array<char, 4> buffer{};
        EXPECT_EQ(co_await child->output.read(buffer), 1U);
        child->input.close();
        EXPECT_TRUE((co_await child->wait())->success());
    };
    run(program());
}

} // namespace
