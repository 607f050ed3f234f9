#pragma once

#include "py_ref.hpp"

#include <cstddef>

namespace penstock::python {

/// The positional parameters of a method that asyncio writes in Python, where a caller may give them
/// by name. What usual calls need of this is one comparison.
struct Parameters {
    const char* method;
    const char* first;
    const char* second = nullptr; ///< null where there is one only
};

using FastMethod = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);

/// Calls `method` with the parameters that were given by name put in their places, before whatever
/// else there is. TypeError when one is missing.
PyObject* call_in_order(const Parameters& parameters, FastMethod method, PyObject* self,
                        PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) noexcept;

/// The argument of a method with one parameter; null with TypeError set.
PyObject* only_argument(const Parameters& parameters, PyObject* const* arguments, Py_ssize_t count,
                        PyObject* keywords) noexcept;

/// A method with one parameter, as a table's METH_FASTCALL | METH_KEYWORDS entry.
template <PyCFunction method, const Parameters& parameters>
PyObject* with_one_parameter(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                             PyObject* keywords) {
    PyObject* argument = count == 1 && keywords == nullptr
                             ? arguments[0]
                             : only_argument(parameters, arguments, count, keywords);
    return argument != nullptr ? method(self, argument) : nullptr;
}

} // namespace penstock::python
