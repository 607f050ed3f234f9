#pragma once

#include "files/file_engine.hpp"

namespace penstock::python {

/// `access_cached(path, mode)`: what access(2) answers, or None if it would have to wait.
PyObject* engine_access_cached(PyObject* self, PyObject* const* values, Py_ssize_t count) noexcept;

/// `mode_cached(path, follow_symlinks)`: the mode, or 0 without a file; None where the answer would
/// have to wait, where the task should yield, and for other errors.
PyObject* engine_mode_cached(PyObject* self, PyObject* const* values, Py_ssize_t count) noexcept;

/// `exists_cached(path, follow_symlinks)`: the same, whether there is a file.
PyObject* engine_exists_cached(PyObject* self, PyObject* const* values, Py_ssize_t count) noexcept;

} // namespace penstock::python
