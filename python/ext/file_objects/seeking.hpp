#pragma once

#include "file_objects/file_step.hpp"

namespace penstock::python {

/// The target of a seek: an offset, and what it is relative to.
struct SeekTarget {
    long long offset;
    int whence;
};

/// False, without an exception, for what only Python code can convert or refuse. `argument` is the
/// tuple that `call_seek` makes.
bool read_target(PyObject* argument, SeekTarget& target) noexcept;

/// Moves the position of an open file; it is then `position`. `AtOnce::slow` where buffered data or
/// a server decide, and for what only Python code refuses: nothing has changed then.
AtOnce move_position(BinaryFileObject* file, const SeekTarget& target,
                     long long& position) noexcept;

/// A call of `method` with the tuple (offset, whence).
PyObject* call_seek(PyObject* self, const FileMethod& method, PyObject* arguments,
                    PyObject* keywords) noexcept;

} // namespace penstock::python
