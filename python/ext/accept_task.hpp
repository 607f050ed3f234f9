#pragma once

#include "loop.hpp"

namespace penstock::python {

/// An asyncio task for the connections that a listener accepts in one go. It lasts until the tasks that their
/// protocols start in `connection_made` have had their first turn. A program that cancels all tasks
/// before that (a server that shuts down) so closes the connections too, which nobody else would do:
/// a task that is cancelled before its first turn never runs.
///
/// Not one for each connection, and its coroutine is native: it would cost a quarter of an accept.
class AcceptTask {
public:
    /// Made before the protocol factory is called, which may cancel tasks. Where there is no memory for
    /// it that is reported, and the connections have no such task.
    explicit AcceptTask(LoopObject* loop) noexcept;

    /// To be called before connection_made.
    void add(PyObject* transport) noexcept;

private:
    LoopObject* loop_; ///< kept alive by the listener
    Ref coroutine_;    ///< null where there is none
};

bool add_accepting_type(PyObject* module, ModuleState* state);

} // namespace penstock::python
