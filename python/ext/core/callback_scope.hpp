#pragma once

#include "core/loop.hpp"

namespace penstock::python {

/// Uncorks all transports: sends the writes of the callback that has ended.
void uncork_all(LoopObject* loop) noexcept;

/// The run of one callback, for write coalescing: a transport may send the writes of one callback
/// in one system call. The transport is corked, and the end of this scope uncorks it, whether or
/// not the loop ever waits for another event. Outside of callbacks every write is sent at once.
class CallbackScope {
public:
    explicit CallbackScope(LoopObject* loop) noexcept : loop_(loop) {
        ++loop_->callback_serial;
        loop_->in_callback = true;
    }

    ~CallbackScope() {
        loop_->in_callback = false;
        if (loop_->corked_transports != nullptr) {
            uncork_all(loop_);
        }
    }

    CallbackScope(const CallbackScope&) = delete;
    CallbackScope& operator=(const CallbackScope&) = delete;

private:
    LoopObject* loop_; ///< kept alive by the caller of the callback
};

} // namespace penstock::python
