#pragma once

#include "core/module.hpp"

namespace penstock::python {

// The methods of BinaryFile that read and write at an offset, for its type. Reads take no turn.

PyObject* call_pread(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                     PyObject* keywords);
PyObject* call_pread_many(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                          PyObject* keywords);
PyObject* call_pwrite(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                      PyObject* keywords);

/// The offset that a method was given; -1 for what only Python code can convert or refuse.
long long offset_argument(PyObject* offset) noexcept;

inline constexpr const char* pwrite_doc =
    "pwrite($self, data, offset)\n--\n\n"
    "Write all of ``data`` at ``offset``, without position and buffer; returns its size.\n\n"
    "In append mode Linux writes at the end of the file nevertheless (pwrite(2)).";

inline constexpr const char* pread_doc =
    "pread($self, size, offset)\n--\n\n"
    "Read ``size`` bytes at ``offset``, without position, turns and read-ahead.\n\n"
    "The result is shorter only at the end of the file. Any number of them may be in flight.";

inline constexpr const char* pread_many_doc =
    "pread_many($self, size, offsets)\n--\n\n"
    "Read ``size`` bytes at each offset; returns the results in their order.\n\n"
    "One call for many reads: what the page cache has is copied at once, the rest is read with\n"
    "64 requests in flight. A result is shorter only at the end of the file.\n\n"
    "Cancellation: abandons the reads that are in flight.";

} // namespace penstock::python
