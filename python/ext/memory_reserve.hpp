#pragma once

#include "loop.hpp"

namespace penstock::python {

/// Gives back the loop's reserve of memory while a MemoryError is dealt with.
///
/// A read takes whatever memory there is for its data, and telling of its failure (a message, a
/// context, what the user's exception handler does with them) needs some too: without a reserve the
/// report fails as the read did. Does nothing for other exceptions, nor within another one.
class LentReserve {
public:
    LentReserve(LoopObject* loop, PyObject* exception) noexcept;
    ~LentReserve();
    LentReserve(const LentReserve&) = delete;
    LentReserve& operator=(const LentReserve&) = delete;

private:
    LoopObject* loop_; ///< null when nothing was lent
};

/// Puts memory aside again, if there is enough by now.
void refill_reserve(LoopObject* loop) noexcept;

void drop_reserve(LoopObject* loop) noexcept;

} // namespace penstock::python
