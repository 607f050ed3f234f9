#pragma once

#include "handle.hpp"

namespace penstock::python {

/// The run of a callback that call_soon_threadsafe() scheduled. From Python 3.14 on, another thread
/// that cancels its handle meanwhile, or asks whether it is cancelled, waits until it has returned.
class ThreadSafeCall {
public:
    explicit ThreadSafeCall(HandleObject* handle) noexcept;
    ~ThreadSafeCall();
    ThreadSafeCall(const ThreadSafeCall&) = delete;
    ThreadSafeCall& operator=(const ThreadSafeCall&) = delete;

private:
    LoopObject* loop_;
    HandleObject* outer_;
};

} // namespace penstock::python
