#pragma once

#include "files/file_engine.hpp"

namespace penstock::python {

// Calls that answer at once, from the kernel's caches, and say so where that is not possible.

/// `read_many_cached(fd, size, offsets)`: a list with the bytes at each offset. If a read would
/// have to wait, a tuple, with None in its place: the caller need not search for it.
PyObject* engine_read_many_cached(PyObject* self, PyObject* const* values,
                                  Py_ssize_t count) noexcept;

/// `read_files_cached(paths, found)`: see `penstock.files._backend.FileBackend`.
PyObject* engine_read_files_cached(PyObject* self, PyObject* const* values,
                                   Py_ssize_t count) noexcept;

/// `read_many_cached` for a list or tuple of offsets; null with an exception set.
PyObject* read_many_cached(int fd, Py_ssize_t size, PyObject* offsets) noexcept;

} // namespace penstock::python
