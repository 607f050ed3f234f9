#pragma once

#include "loop.hpp"

namespace penstock::python {

/// Sends what transports hold of the writes of a callback that has ended.
void send_all_held(LoopObject* loop) noexcept;

/// The run of one callback. The writes that a transport gets meanwhile may leave in one system call:
/// they are held until the callback ends, which this sees to, whether or not the loop ever waits for
/// another event. Outside of callbacks every write leaves at once.
class CallbackScope {
public:
    explicit CallbackScope(LoopObject* loop) noexcept : loop_(loop) {
        ++loop_->callback_serial;
        loop_->in_callback = true;
    }

    ~CallbackScope() {
        loop_->in_callback = false;
        if (loop_->write_holders != nullptr) {
            send_all_held(loop_);
        }
    }

    CallbackScope(const CallbackScope&) = delete;
    CallbackScope& operator=(const CallbackScope&) = delete;

private:
    LoopObject* loop_; ///< kept alive by whoever runs the callback
};

} // namespace penstock::python
