#pragma once

#include "py_ref.hpp"

namespace penstock::python {

/// Raises StopIteration with a coroutine's result; plainly for None, which costs nothing more.
void raise_stop(PyObject* value) noexcept;

/// Raises what a coroutine's throw() was given: an exception, or a class with a value and a
/// traceback; TypeError when it is neither.
void raise_thrown(PyObject* const* arguments, Py_ssize_t count) noexcept;

} // namespace penstock::python
