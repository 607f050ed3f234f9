#pragma once

#include "core/module.hpp"

namespace penstock::python {

// Methods of the loop, for its method table.

[[gnu::hot]] PyObject* call_soon(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                                 PyObject* keywords);
[[gnu::hot]] PyObject* call_soon_threadsafe(PyObject* self, PyObject* const* arguments,
                                            Py_ssize_t count, PyObject* keywords);
[[gnu::hot]] PyObject* call_at(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                               PyObject* keywords);
[[gnu::hot]] PyObject* call_later(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                                  PyObject* keywords);
PyObject* loop_time(PyObject* self, PyObject* unused);
[[gnu::hot]] PyObject* create_future(PyObject* self, PyObject* unused);
[[gnu::hot]] PyObject* create_task(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                                   PyObject* keywords);

} // namespace penstock::python
