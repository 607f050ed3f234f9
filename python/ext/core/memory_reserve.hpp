#pragma once

#include "core/loop.hpp"

namespace penstock::python {

/// Releases the loop's reserve of memory while a MemoryError is handled.
///
/// A read may use all available memory for its data. Reporting its failure needs memory too (a
/// message, a context dictionary, the user's exception handler). Without a reserve the report would
/// also fail. Does nothing for other exceptions, and nothing when nested.
class ReleasedReserve {
public:
    ReleasedReserve(LoopObject* loop, PyObject* exception) noexcept;
    ~ReleasedReserve();
    ReleasedReserve(const ReleasedReserve&) = delete;
    ReleasedReserve& operator=(const ReleasedReserve&) = delete;

private:
    LoopObject* loop_; ///< null when nothing was released
};

/// Reserves memory again, if there is enough.
void refill_reserve(LoopObject* loop) noexcept;

void drop_reserve(LoopObject* loop) noexcept;

} // namespace penstock::python
