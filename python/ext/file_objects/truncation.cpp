// A binary file's length.

#include "file_objects/truncation.hpp"

#include "file_objects/binary_buffer.hpp"
#include "files/cached_writes.hpp"

namespace penstock::python {

long long length_argument(const BinaryFileObject* file, PyObject* given) noexcept {
    if (given == nullptr || given == Py_None) {
        return file->position;
    }
    if (!PyLong_CheckExact(given)) {
        return -1;
    }
    int overflow = 0;
    const long long length = PyLong_AsLongLongAndOverflow(given, &overflow);
    return overflow == 0 && length >= 0 ? length : -1;
}

AtOnce attempt_truncate(FileObject* self, CallArguments given, PyObject** result) {
    BinaryFileObject* file = binary_of(self);
    const long long length = length_argument(file, given.first);
    if (length < 0 || !writes_to_cache(file) || !sees_written(file) ||
        !truncate_at_once(file->engine, file->fd, length)) {
        return AtOnce::slow;
    }
    ask_next_time(self);
    drop_read_ahead(file);
    return at_once_of(PyLong_FromLongLong(length), result);
}

} // namespace penstock::python
