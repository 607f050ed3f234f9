#pragma once

#include "module.hpp"

namespace penstock::python {

/// The task that waits for an awaitable which is also what it is given to wait for: as much of
/// asyncio.Future as a task asks of that. One callback is all that it takes: nobody but the waiting
/// task ever sees it.
///
/// A task knows what it may wait for by the attribute `_asyncio_future_blocking` of the object, but
/// asyncio.isfuture() looks for it in the class: with it there, asyncio.wait_for() and its like would
/// take the awaitable for a future, and never make the task that runs it. So the attribute is
/// answered for by `get_attribute` and `set_attribute`.
struct WaitingTask {
    PyObject* wakeup;  ///< owned, as all that follows; the task's callback, null before it waits
    PyObject* context; ///< in which it is called; null when `wakeup` is
    PyObject* cancel_message;
    bool blocking;  ///< asyncio's mark that it was yielded by an await
    bool cancelled; ///< the task is about to be told
};

/// add_done_callback(callback, *, context=None)
PyObject* set_wakeup(WaitingTask& task, PyObject* const* arguments, Py_ssize_t count,
                     PyObject* keywords) noexcept;

/// cancel(msg=None)'s message, noted; false with an exception set.
bool note_cancel(WaitingTask& task, PyObject* arguments, PyObject* keywords) noexcept;

/// result(): None, since the value comes when the task sends, or CancelledError.
PyObject* raise_if_cancelled(ModuleState* state, WaitingTask& task) noexcept;

/// What to call a `wakeup` with when the wait ended well: `awaitable`, or, for a task of C, which asks
/// its argument for nothing but result(), a future that is done, of which it knows that without a
/// call. Borrowed; never null.
PyObject* argument_of_wakeup(ModuleState* state, PyObject* wakeup, PyObject* awaitable) noexcept;

/// Steps the task now, if it waits; no other one may be running. False with an exception set.
///
/// The task's code runs before this returns, in the middle of the caller. It may have read on, begun
/// another wait, closed, paused, changed a limit, set an exception or started TLS. So whoever steps a
/// task, and likewise whoever calls a protocol, an exporter of a buffer or anything else that may be
/// Python code:
/// - owns beforehand what it will use afterwards: a reference to each object, a `ReadBuffer` for bytes;
/// - reads every state again afterwards, and decides by what it finds then.
bool step(ModuleState* state, WaitingTask& task, PyObject* awaitable) noexcept;

/// Steps it in the loop's next iteration. False with an exception set; then it waits still.
bool step_later(ModuleState* state, WaitingTask& task, PyObject* awaitable,
                PyObject* loop) noexcept;

/// A callable that returns the loop: get_loop() of an awaitable, as its attribute. Loops of ours keep
/// theirs, so that nothing is made for the one call that a task makes of it.
PyObject* loop_getter(ModuleState* state, PyObject* loop) noexcept;

/// For tp_getattro and tp_setattro. `get_loop` is the getter of the attribute of that name, which a
/// task asks for at each wait: a look into the type costs ten times what the answer does.
PyObject* get_attribute(const ModuleState* state, const WaitingTask& task, PyObject* awaitable,
                        PyObject* name, getter get_loop) noexcept;
int set_attribute(WaitingTask& task, PyObject* awaitable, PyObject* name, PyObject* value) noexcept;

/// For tp_traverse.
int visit_task(const WaitingTask& task, visitproc visit, void* arg) noexcept;

/// Lets go of what it holds.
void release(WaitingTask& task) noexcept;

} // namespace penstock::python
