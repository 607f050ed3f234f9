#pragma once

#include "handle.hpp"

namespace penstock::python {

struct FdCallbacks;
struct Direction;

/// What a task is given to wait for while a socket is not ready: as much of asyncio.Future as a task
/// asks of it.
///
/// Not an asyncio.Future: the callback of one runs an iteration after its result was set. The
/// dispatcher calls this one's directly, and the task tries its system call then and there. So
/// nothing is ever read for a task that was cancelled in between.
///
/// It has no result but None; waiting ends by readiness or by `cancel`. One callback is all that it
/// takes: nobody but the waiting task ever sees it.
struct DescriptorWaiterObject {
    enum class State : unsigned char { waiting, ready, cancelled };

    PyObject ob_base;
    LoopObject* loop;             ///< owned
    FdCallbacks* place;           ///< where it is in a queue, or null
    const Direction* direction;   ///< of that place
    DescriptorWaiterObject* next; ///< in that queue, which owns a reference
    HandleObject* handle;         ///< owned; calls the task's step; null before a task waits
    PyObject* cancel_message;
    State state;
    bool blocking; ///< asyncio's mark that it was yielded by an await
};

/// A new waiter in no queue; null with an exception set.
DescriptorWaiterObject* make_descriptor_waiter(LoopObject* loop) noexcept;

/// Calls the waiting task's step. The waiter must be out of its queue.
void wake(DescriptorWaiterObject* waiter) noexcept;

/// The same in the next iteration, for whoever runs in a task's step and must not begin another's.
void wake_soon(DescriptorWaiterObject* waiter) noexcept;

/// Its task will not come back: takes it out of its queue and lets go of what it holds.
void abandon(DescriptorWaiterObject* waiter) noexcept;

} // namespace penstock::python
