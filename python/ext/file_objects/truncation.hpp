#pragma once

#include "file_objects/file_step.hpp"

namespace penstock::python {

/// The length that truncate() was given, or the position; -1 for what only Python code can convert
/// or refuse.
long long length_argument(const BinaryFileObject* file, PyObject* given) noexcept;

/// Changes the length of a file on the loop's thread, see `truncate_at_once`.
AtOnce attempt_truncate(FileObject* self, CallArguments given, PyObject** result);

} // namespace penstock::python
