#pragma once

#include "shared/py_ref.hpp"

#include <cstddef>

namespace penstock::python {

/// The positional parameters of a method that asyncio implements in Python, so that callers may
/// pass them by keyword. A call without keywords costs one comparison.
struct Parameters {
    const char* method;
    const char* first;
    const char* second = nullptr; ///< null when there is only one
};

using FastMethod = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);

/// Calls `method` with keyword arguments for these parameters moved to their positions. Other
/// keywords are passed on. TypeError when a parameter is missing.
PyObject* normalize_keywords(const Parameters& parameters, FastMethod method, PyObject* self,
                             PyObject* const* arguments, Py_ssize_t count,
                             PyObject* keywords) noexcept;

/// Returns the argument of a method with one parameter. Null with TypeError set.
PyObject* only_argument(const Parameters& parameters, PyObject* const* arguments, Py_ssize_t count,
                        PyObject* keywords) noexcept;

/// A method with one parameter, as an entry for METH_FASTCALL | METH_KEYWORDS.
template <PyCFunction method, const Parameters& parameters>
PyObject* with_one_parameter(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                             PyObject* keywords) {
    PyObject* argument = count == 1 && keywords == nullptr
                             ? arguments[0]
                             : only_argument(parameters, arguments, count, keywords);
    return argument != nullptr ? method(self, argument) : nullptr;
}

} // namespace penstock::python
