#pragma once

#include "core/module.hpp"

namespace penstock::python {

/// Raises StopIteration with a value, which is how tp_iternext returns the result of an await.
/// Raises MemoryError when there is no memory.
///
/// From CPython 3.12 on the exception is a reused object of a subclass: making and freeing a
/// StopIteration costs more than all the rest of an await that need not wait. It is not reused
/// while a reference to it exists, and keeps its `value` and `args`.
void raise_stop_iteration(ModuleState* state, PyObject* value) noexcept;

/// The same with an instance of StopIteration itself, for callers of send(), which inspect it.
void raise_plain_stop_iteration(PyObject* value) noexcept;

/// Frees the spare exceptions.
void empty_stop_iteration_freelist(ModuleState* state) noexcept;

} // namespace penstock::python
