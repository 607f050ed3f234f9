#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <unistd.h>

#include <penstock/io/poller.hpp>
#include <penstock/io/timer_queue.hpp>
#include <penstock/io/work.hpp>

namespace penstock::testing {

/// A watch that records its events and calls a function, if it has one.
struct TestWatch : io::Watch {
    using Function = std::function<void(TestWatch&)>;

    explicit TestWatch(Function on_event = {}) : Watch(&call), function(std::move(on_event)) {}

    static void call(io::Watch& watch, std::uint32_t events) {
        auto& self = static_cast<TestWatch&>(watch);
        self.events.push_back(events);
        if (self.function) {
            // A copy, because the function may destroy this watch.
            const Function function = self.function;
            function(self);
        }
    }

    [[nodiscard]] std::size_t calls() const noexcept { return events.size(); }

    std::vector<std::uint32_t> events;
    Function function;
};

/// Work that counts its runs and calls a function, if it has one.
struct TestWork : io::Work {
    using Function = std::function<void()>;

    explicit TestWork(Function on_run = {}) : Work(&call), function(std::move(on_run)) {}

    static void call(io::Work& work) {
        auto& self = static_cast<TestWork&>(work);
        ++self.runs;
        if (self.function) {
            const Function function = self.function;
            function();
        }
    }

    int runs = 0;
    Function function;
};

/// A timer that counts its runs and calls a function, if it has one.
struct TestTimer : io::Timer {
    using Function = std::function<void()>;

    explicit TestTimer(Function on_due = {}) : Timer(&call), function(std::move(on_due)) {}

    static TestTimer& of(io::Timer& timer) { return static_cast<TestTimer&>(timer); }

    static void call(io::Work& due) {
        // The work is the timer's first member, which makes their addresses one.
        auto& self = of(*reinterpret_cast<io::Timer*>(&due));
        ++self.runs;
        if (self.function) {
            const Function function = self.function;
            function();
        }
    }

    int runs = 0;
    Function function;
};

} // namespace penstock::testing
