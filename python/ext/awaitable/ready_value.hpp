#pragma once

#include "core/module.hpp"

namespace penstock::python {

/// An awaitable of `value`, which is taken over. Null if that is null, or with an exception set.
///
/// The module keeps one and lends it while nobody else refers to it, so that a loop over lines
/// allocates nothing but the lines. A value whose awaitable is dropped without an await lives until
/// the next call.
PyObject* make_ready_value(ModuleState* state, PyObject* value) noexcept;

} // namespace penstock::python
