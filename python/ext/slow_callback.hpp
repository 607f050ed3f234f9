#pragma once

#include "loop.hpp"

#include <penstock/io/timer_queue.hpp>

namespace penstock::python {

/// Debug mode: tells when what runs in its scope, natively called on behalf of `subject` (a transport,
/// a listener), kept the loop for longer than `slow_callback_duration`. Callbacks that are handles
/// tell so themselves, by their names.
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
    void report() const noexcept;

    LoopObject* loop_;  ///< null where there is nothing to watch; kept alive by whoever runs it
    PyObject* subject_; ///< kept alive by the caller
    io::MonotonicTime began_ = 0;
};

} // namespace penstock::python
