#pragma once

#include "core/module.hpp"

namespace penstock::python {

// The methods of TextFile that are about its position, for its type.

PyObject* call_text_tell(PyObject* self, PyObject* unused);
PyObject* call_text_seek(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                         PyObject* keywords);

} // namespace penstock::python
