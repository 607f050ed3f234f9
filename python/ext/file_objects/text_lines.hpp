#pragma once

#include "file_objects/file_object.hpp"

namespace penstock::python {

/// The position after the first line end of `text` from `from` on; 0 if there is none.
Py_ssize_t line_end_after(PyObject* text, Py_ssize_t from, LineEnd kind) noexcept;

} // namespace penstock::python
