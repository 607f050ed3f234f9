#pragma once

#include "py_ref.hpp"

namespace penstock::python {

// What all awaitables have in common that are coroutine objects in all but their type.

/// Whether a coroutine can be resumed; false with an exception set when it runs, or has ended.
bool may_resume(bool running, bool finished) noexcept;

/// Whether send() may be given a value; false with an exception set: one that has not begun takes
/// none but None.
bool may_send(PyObject* value, bool begun) noexcept;

/// What tp_iternext returns after a step of `self`, which is of a type of this module: a result is
/// StopIteration's, and a plain end for None, which costs nothing more.
PyObject* iterator_step(PyObject* self, PySendResult sent, PyObject* result) noexcept;

/// What send() returns after a step: the same, but StopIteration is raised for None too.
PyObject* send_step(PySendResult sent, PyObject* result) noexcept;

/// Raises what a coroutine's throw() was given: an exception, or a class with a value and a
/// traceback; TypeError when it is neither.
void raise_thrown(PyObject* const* arguments, Py_ssize_t count) noexcept;

/// For tp_finalize: RuntimeWarning that nobody awaited it. Leaves a raised exception as it is.
void warn_never_awaited(PyObject* self, const char* name) noexcept;

/// For am_await and tp_iter: a coroutine is its own iterator.
PyObject* await_itself(PyObject* self) noexcept;

} // namespace penstock::python
