#pragma once

#include "file_operation.hpp"

namespace penstock::python {

// What tasks do with a file operation, for its type's slots.

PySendResult send_to_file_operation(PyObject* self, PyObject* value, PyObject** result) noexcept;
PyObject* next_of_file_operation(PyObject* self) noexcept;
PyObject* loop_getter_of_file_operation(PyObject* self, void* closure) noexcept;
PyObject* file_operation_attribute(PyObject* self, PyObject* name) noexcept;
int set_file_operation_attribute(PyObject* self, PyObject* name, PyObject* value) noexcept;

extern PyMethodDef file_operation_methods[];

} // namespace penstock::python
