#pragma once

#include "file_objects/file_step.hpp"

namespace penstock::python {

/// The target of a seek: an offset, and what it is relative to.
struct SeekTarget {
    long long offset;
    int whence;
};

/// False, without an exception, for what only Python code can convert or refuse. The arguments are
/// those that `call_seek` passes.
bool read_target(const CallArguments& given, SeekTarget& target) noexcept;

/// Moves the position of an open file; it is then `position`. `AtOnce::slow` where buffered data or
/// a server decide, and for what only Python code refuses: nothing has changed then.
AtOnce move_position(BinaryFileObject* file, const SeekTarget& target,
                     long long& position) noexcept;

/// A call of `method` with the arguments offset and whence, which is SEEK_SET by default.
PyObject* call_seek(PyObject* self, const FileMethod& method, PyObject* const* arguments,
                    Py_ssize_t count, PyObject* keywords) noexcept;

} // namespace penstock::python
