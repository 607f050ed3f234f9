#pragma once

#include "core/module.hpp"

namespace penstock::python {

bool add_file_step_type(PyObject* module, ModuleState* state);
bool add_binary_file_type(PyObject* module, ModuleState* state);
bool add_text_piece_type(PyObject* module, ModuleState* state);
bool add_text_file_type(PyObject* module, ModuleState* state);
bool add_opening_types(PyObject* module, ModuleState* state);
bool add_line_lists(PyObject* module);

} // namespace penstock::python
