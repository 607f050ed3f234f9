#pragma once

#include <Python.h>
#include <datetime.h>

namespace penstock::python::record {

struct ModuleState {
    PyDateTime_CAPI* datetime = nullptr; ///< of the module datetime, which lives as long
};

ModuleState* state_of_module(PyObject* module) noexcept;

// The module's functions. Each file documents its own.
PyObject* csv_rows(PyObject* module, PyObject* arguments) noexcept;
PyObject* json_rows(PyObject* module, PyObject* arguments) noexcept;
PyObject* copy_rows(PyObject* module, PyObject* arguments) noexcept;
PyObject* plain_rows(PyObject* module, PyObject* arguments) noexcept;
PyObject* line_rows(PyObject* module, PyObject* arguments) noexcept;
PyObject* line_counts(PyObject* module, PyObject* data) noexcept;
PyObject* rising_stamps(PyObject* module, PyObject* arguments) noexcept;
PyObject* attribute_lists(PyObject* module, PyObject* arguments) noexcept;
PyObject* value_lists(PyObject* module, PyObject* arguments) noexcept;
PyObject* float_cells(PyObject* module, PyObject* cells) noexcept;
PyObject* utc_stamps(PyObject* module, PyObject* arguments) noexcept;
PyObject* frame_values(PyObject* module, PyObject* const* arguments, Py_ssize_t count) noexcept;
PyObject* filled(PyObject* module, PyObject* const* arguments, Py_ssize_t count) noexcept;

/// Adds the class xxh3_128; false with an exception set.
bool add_xxh3_digest(PyObject* module) noexcept;

} // namespace penstock::python::record
