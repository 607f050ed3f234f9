#pragma once

#include "module.hpp"

namespace penstock::python {

// Methods of the loop, for its table.

PyObject* call_soon(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                    PyObject* keywords);
PyObject* call_soon_threadsafe(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                               PyObject* keywords);
PyObject* call_at(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords);
PyObject* call_later(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                     PyObject* keywords);
PyObject* loop_time(PyObject* self, PyObject* unused);
PyObject* create_future(PyObject* self, PyObject* unused);
PyObject* create_task(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                      PyObject* keywords);

} // namespace penstock::python
