#pragma once

#include "files/file_engine.hpp"

#include <cstddef>

namespace penstock::python {

/// `access_cached(path, mode)`: what access(2) answers, or None if it would have to wait.
PyObject* engine_access_cached(PyObject* self, PyObject* const* values, Py_ssize_t count) noexcept;

/// A question about a path that the kernel's caches may answer.
struct CachedQuestion {
    static constexpr std::size_t most_arguments = 2;

    const char* name;
    std::size_t arguments;

    /// The answer; None if only an operation can tell. Null with an exception set.
    PyObject* (*ask)(PyObject* engine, PyObject* const* values) noexcept;
};

/// The question of a name, which is that of a function of `os` or `os.path`; null if there is none.
const CachedQuestion* find_cached_question(const char* name) noexcept;

} // namespace penstock::python
