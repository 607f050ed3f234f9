#pragma once

#include "core/loop.hpp"

namespace penstock::python {

/// An asyncio task for the connections that a listener accepts in one pass. It lasts until the
/// tasks that their protocols start in `connection_made` have run their first step. A program that
/// cancels all tasks before that (a server that shuts down) thereby closes these connections too.
/// Otherwise they would stay open: a task that is cancelled before its first step never runs.
///
/// One task for all of them, with a native coroutine: a task for each connection would cost a
/// quarter of an accept.
class AcceptTask {
public:
    /// Made before the protocol factory is called, which may cancel tasks. A lack of memory is
    /// reported, and the connections then have no such task.
    explicit AcceptTask(LoopObject* loop) noexcept;

    /// Must be called before connection_made.
    void add(PyObject* transport) noexcept;

private:
    LoopObject* loop_; ///< the listener keeps it alive
    Ref coroutine_;    ///< null when there is none
};

bool add_accepting_type(PyObject* module, ModuleState* state);

} // namespace penstock::python
