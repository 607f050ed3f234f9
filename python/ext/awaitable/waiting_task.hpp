#pragma once

#include "core/module.hpp"

namespace penstock::python {

struct LoopObject;

/// Lets a native awaitable act as the future that its task blocks on. It takes one callback,
/// because only the waiting task sees it.
///
/// A task may block on an object with the attribute `_asyncio_future_blocking`, but
/// asyncio.isfuture() looks for that attribute in the class. If the class had it,
/// asyncio.wait_for() and similar functions would treat a coroutine as a future, and never make the
/// task that runs it. So for an awaitable that is also a coroutine, `get_attribute` and
/// `set_attribute` implement the attribute. While it is suspended, and only then, its `__class__`
/// is asyncio.Future, for programs that step coroutines themselves and ask asyncio.isfuture() about
/// what these yield.
struct WaitingTask {
    PyObject* wakeup;         ///< owned; the task's callback, null while none waits
    PyObject* context;        ///< owned; in which it is called; null when `wakeup` is
    PyObject* cancel_message; ///< owned, or null
    bool blocking;            ///< asyncio's mark that it was yielded by an await
    bool cancelled;           ///< by cancel(); the task has not received it yet
};

/// add_done_callback(callback, *, context=None). False with an exception set: RuntimeError when a
/// task waits already.
bool set_wakeup(WaitingTask& task, PyObject* const* arguments, Py_ssize_t count,
                PyObject* keywords) noexcept;

/// remove_done_callback(callback): 1 when it was there, 0 when not, -1 with an exception set.
int remove_wakeup(WaitingTask& task, PyObject* callback) noexcept;

/// Records cancel(msg=None); false with an exception set.
bool note_cancel(WaitingTask& task, PyObject* const* arguments, Py_ssize_t count,
                 PyObject* keywords) noexcept;

/// For result(): false with CancelledError set after cancel().
bool raise_if_cancelled(const ModuleState* state, const WaitingTask& task) noexcept;

/// The argument for a `wakeup` after a successful wait: `awaitable`. A task written in C only calls
/// result() on its argument, so it gets a finished future, whose result it reads without a call.
/// Borrowed; never null.
PyObject* argument_of_wakeup(ModuleState* state, PyObject* wakeup, PyObject* awaitable) noexcept;

/// Steps the task now, if one waits; no other task may be running. False with an exception set.
///
/// The task's code runs before this returns. It may read again, begin another wait, close, pause,
/// change a limit, set an exception or start TLS. The same holds for a call of a protocol, of an
/// exporter of a buffer or of any other Python code. The caller of any of them:
/// - first takes ownership of what it uses afterwards: a reference to each object, a `ReadBuffer`
///   for bytes;
/// - reads all state again afterwards, and decides by the new state.
bool step(ModuleState* state, WaitingTask& task, PyObject* awaitable) noexcept;

/// `step` as a callback of `loop`, which handles raised exceptions. Debug mode times the step and
/// names it like a callback.
void step_as_callback(LoopObject* loop, WaitingTask& task, PyObject* awaitable) noexcept;

/// Steps the task in the next iteration of `loop`. False with an exception set; the task then still
/// waits.
bool schedule_step(LoopObject* loop, WaitingTask& task, PyObject* awaitable) noexcept;

/// The same for any loop of asyncio's interface, through its call_soon().
bool step_later(ModuleState* state, WaitingTask& task, PyObject* awaitable,
                PyObject* loop) noexcept;

/// The attribute get_loop() of an awaitable: a callable that returns the loop. Penstock's loops
/// keep the callable, so that the one call of a task allocates nothing.
PyObject* loop_getter(ModuleState* state, PyObject* loop) noexcept;

/// For tp_getattro and tp_setattro. `get_loop` is the getter of the attribute of that name, which a
/// task reads at each wait: a lookup in the type takes ten times as long as the call.
PyObject* get_attribute(const ModuleState* state, const WaitingTask& task, PyObject* awaitable,
                        PyObject* name, getter get_loop) noexcept;
int set_attribute(const ModuleState* state, WaitingTask& task, PyObject* awaitable, PyObject* name,
                  PyObject* value) noexcept;

/// Sets `_asyncio_future_blocking`; -1 with an exception set.
int set_blocking_mark(WaitingTask& task, PyObject* value) noexcept;

/// For tp_traverse.
inline int visit_task(const WaitingTask& task, visitproc visit, void* arg) noexcept {
    Py_VISIT(task.wakeup);
    Py_VISIT(task.context);
    Py_VISIT(task.cancel_message);
    return 0;
}

/// Drops the references of `task`.
inline void release(WaitingTask& task) noexcept {
    Py_CLEAR(task.wakeup);
    Py_CLEAR(task.context);
    Py_CLEAR(task.cancel_message);
}

} // namespace penstock::python
