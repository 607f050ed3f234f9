#pragma once

#include "files/file_engine.hpp"

namespace penstock::python {

// Calls that answer at once, from the kernel's caches, and say so where that is not possible.

/// `read_many_cached(fd, size, offsets)`: a list with the bytes at each offset, or None where a
/// read would have to wait.
PyObject* engine_read_many_cached(PyObject* self, PyObject* const* values,
                                  Py_ssize_t count) noexcept;

/// `access_cached(path, mode)`: what access(2) answers, or None if it would have to wait.
PyObject* engine_access_cached(PyObject* self, PyObject* const* values, Py_ssize_t count) noexcept;

} // namespace penstock::python
