#pragma once

#include "core/loop.hpp"

#include <penstock/io/timer_queue.hpp>

namespace penstock::python {

/// Debug mode: reports native code that ran for longer than `slow_callback_duration` within this
/// scope on behalf of `subject` (a transport, a listener). Handles report themselves, with their
/// callback's name.
class SlowCallbackWatch {
public:
    SlowCallbackWatch(LoopObject* loop, PyObject* subject) noexcept
        : loop_(loop->debug ? loop : nullptr), subject_(subject) {
        if (loop_ != nullptr) {
            began_ = io::monotonic_now();
        }
    }

    ~SlowCallbackWatch() {
        if (loop_ != nullptr) {
            report();
        }
    }

    SlowCallbackWatch(const SlowCallbackWatch&) = delete;
    SlowCallbackWatch& operator=(const SlowCallbackWatch&) = delete;

private:
    [[gnu::cold]] void report() const noexcept;

    LoopObject* loop_;  ///< null when debug mode is off; the caller keeps it alive
    PyObject* subject_; ///< the caller keeps it alive
    io::MonotonicTime began_ = 0;
};

} // namespace penstock::python
