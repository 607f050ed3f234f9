#pragma once

#include "core/module.hpp"

namespace penstock::python {

/// An awaitable of `value`, which is taken over. Null if that is null, or with an exception set.
PyObject* make_ready_value(ModuleState* state, PyObject* value) noexcept;

} // namespace penstock::python
