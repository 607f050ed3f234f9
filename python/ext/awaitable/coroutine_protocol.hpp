#pragma once

#include "shared/py_ref.hpp"

namespace penstock::python {

struct ModuleState;

// The parts of the coroutine protocol that do not depend on the type of the awaitable: see
// `NativeAwaitable`.

/// The progress of a native coroutine's await.
enum class AwaitStage : unsigned char {
    created,
    running, ///< in a step, which may run Python code that calls the coroutine
    suspended,
    finished,
};

/// Raises the error of a coroutine that cannot be resumed: it is running, or has finished.
void raise_not_resumable(AwaitStage stage) noexcept;

/// Whether a coroutine can be resumed; false with an exception set.
inline bool may_resume(AwaitStage stage) noexcept {
    if (stage == AwaitStage::created || stage == AwaitStage::suspended) {
        return true;
    }
    raise_not_resumable(stage);
    return false;
}

/// Whether close() may end a coroutine; false with an exception set.
inline bool may_close(AwaitStage stage) noexcept {
    if (stage != AwaitStage::running) {
        return true;
    }
    raise_not_resumable(stage);
    return false;
}

/// Whether send() accepts `value`; false with an exception set. A coroutine that has not begun
/// accepts only None.
bool may_send(PyObject* value, bool begun) noexcept;

/// Makes the return value of tp_iternext after a step of `self`, which is of a type of this module.
/// A result is raised as StopIteration. None ends the iteration without an exception, which is
/// cheaper.
PyObject* iterator_step(PyObject* self, PySendResult sent, PyObject* result) noexcept;

/// Makes the return value of send() after a step: like `iterator_step`, but raises StopIteration
/// for None too.
PyObject* send_step(PySendResult sent, PyObject* result) noexcept;

/// Raises the arguments of a coroutine's throw(): an exception, or a class with a value and a
/// traceback. TypeError for anything else.
void raise_thrown(PyObject* const* arguments, Py_ssize_t count) noexcept;

/// Throws into the coroutine that an awaitable awaits in its place: what it yields then, or null
/// with an exception set. The arguments are those of throw().
PyObject* throw_into_delegate(const ModuleState* state, PyObject* delegate,
                              PyObject* const* arguments, Py_ssize_t count) noexcept;

/// Closes and drops the coroutine that an awaitable awaits in its place, which is `running`
/// meanwhile. None, or null with an exception set.
PyObject* close_delegate(PyObject*& delegate, AwaitStage& stage) noexcept;

/// For tp_finalize: RuntimeWarning that the coroutine was never awaited. Preserves a raised
/// exception.
void warn_never_awaited(PyObject* self, const char* name) noexcept;

/// For am_await and tp_iter: a coroutine is its own iterator.
PyObject* await_itself(PyObject* self) noexcept;

} // namespace penstock::python
