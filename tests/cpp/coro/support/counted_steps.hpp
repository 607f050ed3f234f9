#pragma once

#include <algorithm>
#include <cstdint>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <penstock/io/timer_queue.hpp>
#include <penstock/owned_descriptor.hpp>

namespace penstock::testing {

/// Counts the steps of a load that run between the moment when an event is ready and when the task
/// that waits for it goes on. A step makes the event ready itself, so the count does not depend on
/// the machine. Knows nothing of the loop that runs both.
class CountedSteps {
public:
    enum class Event : std::uint8_t {
        data,  ///< a byte of the quiet connection `descriptor`
        timer, ///< the time is `deadline`
    };
    static constexpr std::int64_t usual_work_ns = 400'000;

    /// A step works for `work_ns`: by default longer than any interval that a loop counts as short.
    explicit CountedSteps(Event event = Event::data, std::int64_t work_ns = usual_work_ns)
        : event_(event), work_ns_(work_ns), deadline_(next_deadline()) {
        connect();
    }

    /// A step of the load.
    void step() {
        ++steps_;
        const bool makes_ready = steps_ == next_event_;
        if (makes_ready && event_ == Event::data) {
            EXPECT_EQ(::write(far_.get(), "x", 1), 1);
        }
        const io::MonotonicTime worked = io::monotonic_now() + work_ns_;
        const bool waits = makes_ready && event_ == Event::timer;
        const io::MonotonicTime end = waits ? std::max(worked, deadline_ + 1) : worked;
        while (io::monotonic_now() < end) {
        }
    }

    /// Whether the load should end.
    [[nodiscard]] bool done() const noexcept {
        return handled_ == events || steps_ > next_event_ + most_steps;
    }
    /// Whether all events were handled.
    [[nodiscard]] bool all_handled() const noexcept { return handled_ == events; }

    [[nodiscard]] int descriptor() const noexcept { return near_.get(); }
    [[nodiscard]] io::MonotonicTime deadline() const noexcept { return deadline_; }

    /// The task that waits for the event calls this when it goes on.
    void handle() noexcept {
        if (steps_ >=
            next_event_) { // or else the steps are slow, and the timer came before its own
            worst_ = std::max(worst_, steps_ - next_event_);
            ++handled_;
        }
        next_event_ = steps_ + steps_between_events;
        deadline_ = next_deadline();
    }

    /// The most steps that an event has waited for.
    [[nodiscard]] int worst() const noexcept { return worst_; }

private:
    static constexpr int events = 4;
    /// More than the polls that a loop makes in a row after an event.
    static constexpr int steps_between_events = 20;
    static constexpr int most_steps = 500;

    [[nodiscard]] io::MonotonicTime next_deadline() const noexcept {
        return io::monotonic_now() + 6 * steps_between_events * work_ns_;
    }

    /// A connection over the loopback interface.
    void connect() {
        const OwnedDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in place{.sin_family = AF_INET,
                          .sin_port = 0,
                          .sin_addr = {htonl(INADDR_LOOPBACK)},
                          .sin_zero = {}};
        auto* const address = reinterpret_cast<sockaddr*>(&place);
        socklen_t size = sizeof place;
        far_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(::bind(listener.get(), address, size), 0);
        EXPECT_EQ(::listen(listener.get(), 1), 0);
        EXPECT_EQ(::getsockname(listener.get(), address, &size), 0);
        EXPECT_EQ(::connect(far_.get(), address, size), 0);
        near_.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    }

    Event event_;
    std::int64_t work_ns_;
    OwnedDescriptor near_;
    OwnedDescriptor far_;
    int steps_ = 0;
    int next_event_ = steps_between_events;
    io::MonotonicTime deadline_;
    int worst_ = 0;
    int handled_ = 0;
};

} // namespace penstock::testing
