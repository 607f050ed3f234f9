// The library in destructors that run at the end of a thread or a program, when its own
// thread_local and static objects have ended.

#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>

#include <gtest/gtest.h>
#include <unistd.h>

#include <penstock/bridge/block_on.hpp>
#include <penstock/bridge/promise.hpp>
#include <penstock/bridge/to_thread.hpp>
#include <penstock/fs/paths.hpp>
#include <penstock/process/command.hpp>
#include <penstock/sync/channel_ends.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/timeout.hpp>

#include "support/child_process.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::block_on;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::testing::in_child_process;

/// A service that works in its destructor.
class Service {
public:
    explicit Service(std::function<void()> work) : work_(std::move(work)) {}
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;
    ~Service() { work_(); }

private:
    std::function<void()> work_;
};

/// Uses what keeps something for the thread or the process.
bool uses_everything() {
    const auto program = []() -> Task<bool> {
        const Result<> slept = co_await penstock::sleep_for(1ms);
        const Result<int> worked = co_await penstock::to_thread([] { return 7; });
        const Result<std::string> read = co_await penstock::fs::read_text("/proc/self/stat");
        auto [sender, receiver] = penstock::make_channel<int>(1);
        sender.close();
        const Result<int> received = co_await receiver.receive();
        // The category of an error code is an object of the library too.
        const bool told = received.error().message() == "the channel is closed";
        const Result<> late = co_await penstock::timeout(1ms, penstock::sleep_for(1h));
        co_return slept&& worked == 7 && read&& told&& late.error() == std::errc::timed_out;
    };
    return block_on(program()) && run(program());
}

bool posts() {
    penstock::EventLoop loop;
    auto [promise, future] = penstock::make_promise<int>();
    loop.post([promise = std::move(promise)]() mutable { promise.set(5); });
    const auto program = [&]() -> Task<Result<int>> { co_return co_await future.wait(); };
    return loop.run(program()) == 5;
}

bool starts_processes() {
    {
        const auto killed =
            penstock::process::Command("sleep").argument("60").kill_on_close().spawn();
    }
    const auto program = []() -> Task<bool> {
        auto child = penstock::process::Command("true").spawn();
        co_return child && (co_await child->wait())->success();
    };
    return block_on(program());
}

/// The exit code of a program whose static object, older than anything static in the library that
/// it uses, does `work` in its destructor. Before that, `main` does it too.
int at_exit(bool (*work)()) {
    return in_child_process([&] {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): the child has one thread
        static const Service service([work] { ::_exit(work() ? 0 : 1); });
        if (!work()) {
            return 2;
        }
        std::exit(3); // NOLINT(concurrency-mt-unsafe)
    });
}

TEST(ProgramEnd, StaticObjectsMayUseTheLibraryInTheirDestructors) {
    if (!penstock::testing::child_may_start_threads) {
        GTEST_SKIP() << "ThreadSanitizer: a forked child has no threads";
    }
    EXPECT_EQ(at_exit(&uses_everything), 0);
    EXPECT_EQ(at_exit(&posts), 0);
    EXPECT_EQ(at_exit(&starts_processes), 0);
}

TEST(ProgramEnd, ThreadLocalObjectsMayUseItInTheirDestructors) {
    for (const auto work : {&uses_everything, &posts, &starts_processes}) {
        bool worked_before = false;
        bool worked_at_end = false;
        std::thread([&] {
            // Older than the thread's loop, so it ends after it.
            static thread_local std::optional<Service> service;
            service.emplace([&] { worked_at_end = work(); });
            worked_before = work();
        }).join();
        EXPECT_TRUE(worked_before);
        EXPECT_TRUE(worked_at_end);
    }
}

// A destructor of a task that ends with the kept loop calls `block_on` again.
TEST(ProgramEnd, APostedFunctionThatEndsWithTheLoopMayUseIt) {
    bool worked = false;
    std::thread([&] {
        const auto post = [&]() -> Task<> {
            auto service = std::make_shared<Service>([&] { worked = uses_everything(); });
            penstock::EventLoop::current().post([service = std::move(service)] {});
            co_return;
        };
        block_on(post());
    }).join();
    EXPECT_TRUE(worked);
}

} // namespace
