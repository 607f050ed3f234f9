#pragma once

#include "files/file_engine.hpp"

namespace penstock::python {

/// `access_cached(path, mode)`: what access(2) answers, or None if it would have to wait.
PyObject* engine_access_cached(PyObject* self, PyObject* const* values, Py_ssize_t count) noexcept;

} // namespace penstock::python
