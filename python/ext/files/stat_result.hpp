#pragma once

#include "core/module.hpp"

#include <sys/stat.h>

namespace penstock::python {

/// The `os.stat_result` of a status; null with an exception set.
PyObject* make_stat_result(ModuleState* state, const struct statx& status) noexcept;

} // namespace penstock::python
