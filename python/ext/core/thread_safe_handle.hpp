#pragma once

#include "core/handle.hpp"

namespace penstock::python {

/// One run of a callback that call_soon_threadsafe() scheduled. From Python 3.14 on, another thread
/// that calls cancel() or cancelled() of its handle meanwhile waits until the callback has
/// returned.
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
