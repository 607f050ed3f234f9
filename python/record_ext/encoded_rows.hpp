#pragma once

#include "columns.hpp"

#include <cstddef>
#include <new>
#include <utility>

namespace penstock::python::record {

/// The bytes object of the rows that `write` puts into `bound` bytes of memory; `write` takes the
/// beginning of the memory and returns the end of the rows. It runs without the GIL where that is
/// worth it.
template <typename Write> PyObject* encoded_rows(std::size_t bound, Write write) noexcept {
    constexpr std::size_t worth_releasing = std::size_t{32} << 10;
    PyObject* bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bound));
    if (bytes == nullptr) {
        return nullptr;
    }
    // Nobody else knows the object yet.
    char* const begin = PyBytes_AS_STRING(bytes);
    char* end = nullptr;
    if (bound < worth_releasing) {
        end = write(begin);
    } else {
        PyThreadState* thread = PyEval_SaveThread();
        end = write(begin);
        PyEval_RestoreThread(thread);
    }
    // Null with an exception set on failure.
    (void)_PyBytes_Resize(&bytes, end - begin);
    return bytes;
}

/// What `encode` makes of the arguments of a function of rows: columns, and the first row and that
/// behind the last. Null with an exception set if the arguments are wrong, or without memory.
template <typename Encode> PyObject* rows_of(PyObject* arguments, Encode encode) noexcept {
    PyObject* given = nullptr;
    Py_ssize_t start = 0;
    Py_ssize_t stop = 0;
    if (PyArg_ParseTuple(arguments, "Onn", &given, &start, &stop) == 0) {
        return nullptr;
    }
    try {
        Columns columns;
        if (!columns.read(given, start, stop)) {
            return nullptr;
        }
        return encode(columns, static_cast<std::size_t>(start), static_cast<std::size_t>(stop));
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

} // namespace penstock::python::record
