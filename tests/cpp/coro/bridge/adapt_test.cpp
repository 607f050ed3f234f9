#include <penstock/bridge/adapt.hpp>

#include <coroutine>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include <penstock/task/run.hpp>
#include <penstock/task/timeout.hpp>

#include "support/watchdog.hpp"

namespace {

using penstock::adapt;
using penstock::run;
using penstock::Task;
using penstock::testing::Watchdog;

/// Completes on a thread of its own, as a foreign library would.
struct OnThread {
    std::thread& thread;
    int value;

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiting) const {
        thread = std::thread([waiting] { waiting.resume(); });
    }
    [[nodiscard]] int await_resume() const {
        if (value < 0) {
            throw std::runtime_error("negative");
        }
        return value;
    }
};

struct Ready {
    [[nodiscard]] bool await_ready() const noexcept { return true; }
    void await_suspend(std::coroutine_handle<> /*waiting*/) const noexcept {}
    void await_resume() const noexcept {}
};

struct WithOperator {
    std::string text;

    struct Awaiter {
        std::string text;

        [[nodiscard]] bool await_ready() const noexcept { return true; }
        void await_suspend(std::coroutine_handle<> /*waiting*/) const noexcept {}
        std::string await_resume() { return std::move(text); }
    };

    Awaiter operator co_await() && { return {std::move(text)}; }
};

TEST(Adapt, ReturnsWhatCompletesOnAnotherThread) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        for (int i = 0; i < 100; ++i) {
            std::thread thread;
            const auto loop_thread = std::this_thread::get_id();
            EXPECT_EQ(co_await adapt(OnThread{.thread = thread, .value = i}), i);
            EXPECT_EQ(std::this_thread::get_id(), loop_thread);
            thread.join();
        }
    };
    run(program());
}

TEST(Adapt, RethrowsExceptions) {
    const Watchdog watchdog;
    std::thread thread;
    const auto program = [&]() -> Task<> {
        (void)co_await adapt(OnThread{.thread = thread, .value = -1});
    };
    EXPECT_THROW(run(program()), std::runtime_error);
    thread.join();
}

TEST(Adapt, TakesAwaitablesThatAreReady) {
    const auto program = []() -> Task<> {
        co_await adapt(Ready());
        EXPECT_EQ(co_await adapt(WithOperator{.text = "text"}), "text");
    };
    run(program());
}

/// An event of another library: awaited where it is, and neither copied nor moved.
class ForeignEvent {
public:
    ForeignEvent() = default;
    ForeignEvent(const ForeignEvent&) = delete;
    ForeignEvent& operator=(const ForeignEvent&) = delete;

    void set() {
        set_ = true;
        if (waiting_) {
            std::exchange(waiting_, nullptr).resume();
        }
    }

    struct Awaiter {
        ForeignEvent& event;

        [[nodiscard]] bool await_ready() const noexcept { return event.set_; }
        void await_suspend(std::coroutine_handle<> waiting) const noexcept {
            event.waiting_ = waiting;
        }
        void await_resume() const noexcept {}
    };

    Awaiter operator co_await() & noexcept { return {*this}; }

private:
    bool set_ = false;
    std::coroutine_handle<> waiting_;
};

TEST(Adapt, AwaitsAnObjectWhereItIs) {
    const Watchdog watchdog;
    ForeignEvent event;
    const auto program = [&]() -> Task<> {
        penstock::EventLoop::current().post([&] { event.set(); });
        co_await adapt(event);
        co_await adapt(event); // set already
    };
    run(program());
}

TEST(Adapt, IsNotEndedByACancellation) {
    const Watchdog watchdog;
    std::thread thread;
    const auto program = [&]() -> Task<> {
        const auto waits = [&]() -> Task<int> {
            co_return co_await adapt(OnThread{.thread = thread, .value = 3});
        };
        // The deadline has passed when the task starts.
        const auto result = co_await penstock::timeout(std::chrono::seconds(0), waits());
        EXPECT_TRUE(result == 3 || result.error() == std::errc::timed_out);
        thread.join();
    };
    run(program());
}

} // namespace
