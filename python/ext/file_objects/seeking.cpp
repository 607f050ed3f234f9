// Where a seek leads.

#include "file_objects/seeking.hpp"

#include "file_objects/binary_buffer.hpp"

#include <unistd.h>

namespace penstock::python {

namespace {

/// Where a seek with `whence` begins; -1 where buffered data or a server decide.
long long origin_of(const BinaryFileObject* file, int whence) noexcept {
    switch (whence) {
    case SEEK_SET:
        return 0;
    case SEEK_CUR:
        return file->position;
    default:
        return file->regular != 0 && file->unwritten_size == 0 ? present_size(file) : -1;
    }
}

} // namespace

bool read_target(const CallArguments& given, SeekTarget& target) noexcept {
    PyObject* offset = given.first;
    PyObject* whence = given.second;
    if (!PyLong_CheckExact(offset) || !PyLong_CheckExact(whence)) {
        return false;
    }
    int overflow = 0;
    target.offset = PyLong_AsLongLongAndOverflow(offset, &overflow);
    if (overflow != 0) {
        return false;
    }
    const long kind = PyLong_AsLongAndOverflow(whence, &overflow);
    target.whence = static_cast<int>(kind);
    return overflow == 0 && kind >= SEEK_SET && kind <= SEEK_END;
}

AtOnce move_position(BinaryFileObject* file, const SeekTarget& target,
                     long long& position) noexcept {
    if (file->fd < 0 || file->seekable == 0 || has_open_position(file)) {
        return AtOnce::slow;
    }
    const long long origin = origin_of(file, target.whence);
    if (origin < 0 || __builtin_add_overflow(origin, target.offset, &position) || position < 0) {
        return AtOnce::slow;
    }
    const bool holds = file->ahead != nullptr && PyBytes_CheckExact(file->ahead);
    const long long ahead = holds ? PyBytes_GET_SIZE(file->ahead) : 0;
    if (position < file->ahead_at || position - file->ahead_at > ahead) {
        file->next_read_ahead = file->buffer_size;
    }
    file->position = position;
    return AtOnce::done;
}

PyObject* call_seek(PyObject* self, const FileMethod& method, PyObject* const* arguments,
                    Py_ssize_t count, PyObject* keywords) noexcept {
    CallArguments given;
    if (!take_arguments(method.name, {"offset", "whence"}, 1, arguments, count, keywords, given)) {
        return nullptr;
    }
    const Ref set(given.second == nullptr ? PyLong_FromLong(SEEK_SET) : Py_NewRef(given.second));
    return set ? make_file_step(file_of(self), method, {given.first, set.get()}) : nullptr;
}

} // namespace penstock::python
