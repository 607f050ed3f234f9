// Reads and writes of a binary file at offsets, which do not use its position.

#include "file_objects/positioned_transfers.hpp"

#include "file_objects/binary_buffer.hpp"
#include "file_objects/file_waits.hpp"
#include "files/file_batches.hpp"

namespace penstock::python {

namespace {

/// The loop's thread copies no more without looking at the clock.
constexpr long long most_at_once = 1 << 20;

/// -1 for what only Python code can convert or refuse, and for more than is read at once.
Py_ssize_t size_to_read(PyObject* size) noexcept {
    const Py_ssize_t value = size == Py_None ? -1 : size_argument(size);
    return value <= most_at_once ? value : -1;
}

AtOnce attempt_pread(FileObject* self, CallArguments given, PyObject** result) {
    BinaryFileObject* file = binary_of(self);
    const Py_ssize_t size = size_to_read(given.first);
    const long long place = offset_argument(given.second);
    if (size < 0 || place < 0 || !is_readable(file) || !reads_from_cache(file)) {
        return AtOnce::slow;
    }
    *result = read_cached_at(file, size, place).release();
    return *result != nullptr ? AtOnce::done : AtOnce::slow;
}

AtOnce attempt_pread_many(FileObject* self, CallArguments given, PyObject** result) {
    BinaryFileObject* file = binary_of(self);
    const Py_ssize_t size = size_to_read(given.first);
    PyObject* offsets = given.second;
    const bool counted = PyList_CheckExact(offsets) || PyTuple_CheckExact(offsets);
    if (size <= 0 || !counted || !is_readable(file) || !reads_from_cache(file)) {
        return AtOnce::slow;
    }
    const long long total = size * PySequence_Fast_GET_SIZE(offsets);
    if (total == 0 || total > most_at_once) {
        return AtOnce::slow;
    }
    Ref found(read_many_cached(file->fd, size, offsets));
    file->engine->slice_credit -= total;
    ask_next_time(self);
    if (!found) {
        return AtOnce::failed;
    }
    if (!PyList_CheckExact(found.get())) {
        return AtOnce::slow; // some are not in the cache
    }
    *result = found.release();
    return AtOnce::done;
}

/// Needs the turn for what was buffered, and has it while it writes.
AtOnce attempt_pwrite(FileObject* self, CallArguments given, PyObject** result) {
    BinaryFileObject* file = binary_of(self);
    const long long place = offset_argument(given.second);
    if (place < 0 || !PyBytes_CheckExact(given.first) || !writes_to_cache(file) ||
        file->unwritten_size != 0) {
        return AtOnce::slow;
    }
    if (!write_at(file, given.first, place)) {
        return AtOnce::slow;
    }
    drop_read_ahead(file);
    return at_once_of(PyLong_FromSsize_t(PyBytes_GET_SIZE(given.first)), result);
}

const FileMethod pwrite_method = {
    .name = "pwrite",
    .qualified_name = "BinaryFile.pwrite",
    .attempt = &attempt_pwrite,
    .slow = &ModuleState::name_pwrite_in_turn,
    .arguments = 2,
};

const FileMethod pread_method = {
    .name = "pread",
    .qualified_name = "BinaryFile.pread",
    .attempt = &attempt_pread,
    .slow = &ModuleState::name_pread_slowly,
    .arguments = 2,
    .uses_turn = false,
    .wait = &wait_for_pread,
};

const FileMethod pread_many_method = {
    .name = "pread_many",
    .qualified_name = "BinaryFile.pread_many",
    .attempt = &attempt_pread_many,
    .slow = &ModuleState::name_pread_many_slowly,
    .arguments = 2,
    .uses_turn = false,
};

PyObject* call_with_two(PyObject* self, const FileMethod& method, const char* const (&names)[2],
                        PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) noexcept {
    CallArguments given;
    if (count == 2 && keywords == nullptr) {
        given = {arguments[0], arguments[1]};
    } else if (!take_arguments(method.name, names, 2, arguments, count, keywords, given)) {
        return nullptr;
    }
    return make_file_step(file_of(self), method, given);
}

} // namespace

long long offset_argument(PyObject* offset) noexcept {
    if (!PyLong_CheckExact(offset)) {
        return -1;
    }
    int overflow = 0;
    const long long place = PyLong_AsLongLongAndOverflow(offset, &overflow);
    return overflow == 0 && place >= 0 ? place : -1;
}

PyObject* call_pread(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                     PyObject* keywords) {
    return call_with_two(self, pread_method, {"size", "offset"}, arguments, count, keywords);
}

PyObject* call_pread_many(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                          PyObject* keywords) {
    return call_with_two(self, pread_many_method, {"size", "offsets"}, arguments, count, keywords);
}

PyObject* call_pwrite(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                      PyObject* keywords) {
    return call_with_two(self, pwrite_method, {"data", "offset"}, arguments, count, keywords);
}

} // namespace penstock::python
