#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>

#include <gtest/gtest.h>
#include <unistd.h>

#include <penstock/net/tcp_stream.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/sleep.hpp>

#include "coro/support/counted_steps.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/watchdog.hpp"

namespace penstock::testing {

/// `CountedSteps` of a load on Penstock's loop.
class StepsBeforeAnEvent : public CountedSteps {
public:
    using CountedSteps::CountedSteps;

    /// Waits for the events beside the load.
    Task<> watch(Event event = Event::data) {
        return event == Event::data ? watch_data() : watch_timer();
    }

private:
    Task<> watch_data() {
        net::TcpStream stream = expect(net::TcpStream::adopt(OwnedDescriptor(::dup(descriptor()))));
        std::array<char, 1> byte{};
        while (!all_handled() && co_await stream.read(byte)) {
            handle();
        }
    }

    Task<> watch_timer() {
        const auto due = [this] {
            return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline()));
        };
        while (!all_handled() && co_await sleep_until(due())) {
            handle();
        }
    }
};

/// A load calls `steps.step()` until `steps.done()`.
using Load = std::function<Task<>(StepsBeforeAnEvent& steps)>;

/// The most steps of a load that an event has waited for.
inline int steps_before_an_event(const Load& load,
                                 CountedSteps::Event event = CountedSteps::Event::data,
                                 std::int64_t work_ns = CountedSteps::usual_work_ns) {
    const Watchdog watchdog;
    StepsBeforeAnEvent steps(event, work_ns);
    const auto program = [&]() -> Task<> {
        (void)co_await with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(steps.watch(event));
            co_await load(steps);
            EXPECT_TRUE(steps.done()) << "the load was too short";
            scope.cancel();
        });
    };
    run(program());
    return steps.worst();
}

/// Expects that a task that waits for a descriptor goes on after at most `most` steps of the load
/// since the one in which the descriptor became readable.
inline void expect_steps_before_an_event(std::string_view name, const Load& load, int most) {
    EXPECT_LE(steps_before_an_event(load), most) << name;
}

} // namespace penstock::testing
