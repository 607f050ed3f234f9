#pragma once

#include "module.hpp"

namespace penstock::python {

/// Raises StopIteration with a value: how tp_iternext tells an await its result. With MemoryError
/// instead when there is no memory.
///
/// From CPython 3.12 on the exception is an object of a subclass, made once and used again: what
/// StopIteration costs to make and to free is more than all the rest of an await that need not wait.
/// Its `value`, `args` and everything else are an exception's of its own while anybody has it.
void raise_stop_iteration(ModuleState* state, PyObject* value) noexcept;

/// The same with a StopIteration of the class itself, for who asks by send() and looks at it.
void raise_plain_stop_iteration(PyObject* value) noexcept;

/// Frees the exceptions that are kept for use.
void release_spare_stops(ModuleState* state) noexcept;

} // namespace penstock::python
