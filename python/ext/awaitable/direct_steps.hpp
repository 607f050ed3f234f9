#pragma once

#include "core/loop.hpp"

#include <penstock/io/time_slice.hpp>

namespace penstock::python {

/// When the task that waits for received data is stepped.
enum class Feeding : unsigned char {
    from_dispatcher, ///< now: no task runs
    anywhere,        ///< in the next iteration
};

/// Whether the events of one descriptor step the task that waits for it at once.
///
/// That saves the queue of callbacks and an iteration, but the other events of the same poll wait
/// for the step. asyncio notices all of them before it runs any task. So a step at once is for
/// tasks whose steps are short: after one that took `callbacks_slice`, the tasks of the next
/// `queued_after_a_slow_one` events are stepped in the next iteration, as on asyncio.
class DirectSteps {
public:
    /// Whether the task of an event is stepped at once. Call it once for each event.
    [[nodiscard]] bool allowed() noexcept {
        if (queued_left_ == 0) {
            return true;
        }
        --queued_left_;
        return false;
    }

    /// Calls `step`, which steps the task at once. This object must outlive the call.
    template <typename Step> auto timed(Step step) noexcept {
        io::TimeSlice slice(callbacks_slice);
        slice.begin();
        auto result = step();
        if (slice.is_over()) {
            queued_left_ = queued_after_a_slow_one;
        }
        return result;
    }

private:
    static constexpr unsigned char queued_after_a_slow_one = 255;

    unsigned char queued_left_ = 0;
};

} // namespace penstock::python
