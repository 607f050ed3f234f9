#pragma once

#include "files/file_engine.hpp"

namespace penstock::python {

// Calls that answer at once, from the kernel's caches, and say so where that is not possible.

/// `read_many_cached(fd, size, offsets)`: a list with the bytes at each offset. If a read would
/// have to wait, a tuple, with None in its place: the caller need not search for it.
PyObject* engine_read_many_cached(PyObject* self, PyObject* const* values,
                                  Py_ssize_t count) noexcept;

/// `access_cached(path, mode)`: what access(2) answers, or None if it would have to wait.
PyObject* engine_access_cached(PyObject* self, PyObject* const* values, Py_ssize_t count) noexcept;

/// `mode_cached(path, follow_symlinks)`: the mode, or 0 without a file; None where the answer would
/// have to wait, where the task should yield, and for other errors.
PyObject* engine_mode_cached(PyObject* self, PyObject* const* values, Py_ssize_t count) noexcept;

/// `exists_cached(path, follow_symlinks)`: the same, whether there is a file.
PyObject* engine_exists_cached(PyObject* self, PyObject* const* values, Py_ssize_t count) noexcept;

} // namespace penstock::python
