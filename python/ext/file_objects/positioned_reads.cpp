// Reads of a binary file at offsets, which use neither its position nor its turns.

#include "file_objects/positioned_reads.hpp"

#include "file_objects/binary_buffer.hpp"
#include "files/file_batches.hpp"

namespace penstock::python {

namespace {

/// The loop's thread copies no more without looking at the clock.
constexpr long long most_at_once = 1 << 20;

/// The size, which is the first of the two arguments: -1 for what only Python code can convert or
/// refuse, and for more than is read at once.
Py_ssize_t size_to_read(PyObject* arguments) noexcept {
    PyObject* size = PyTuple_GET_ITEM(arguments, 0);
    const Py_ssize_t value = size == Py_None ? -1 : size_argument(size);
    return value <= most_at_once ? value : -1;
}

AtOnce attempt_pread(FileObject* self, PyObject* arguments, PyObject** result) {
    BinaryFileObject* file = binary_of(self);
    const Py_ssize_t size = size_to_read(arguments);
    PyObject* offset = PyTuple_GET_ITEM(arguments, 1);
    if (size < 0 || !is_readable(file) || !reads_from_cache(file) || !PyLong_CheckExact(offset)) {
        return AtOnce::slow;
    }
    int overflow = 0;
    const long long place = PyLong_AsLongLongAndOverflow(offset, &overflow);
    if (place < 0 || overflow != 0) {
        return AtOnce::slow;
    }
    *result = read_cached_at(file, size, place).release();
    return *result != nullptr ? AtOnce::done : AtOnce::slow;
}

AtOnce attempt_pread_many(FileObject* self, PyObject* arguments, PyObject** result) {
    BinaryFileObject* file = binary_of(self);
    const Py_ssize_t size = size_to_read(arguments);
    PyObject* offsets = PyTuple_GET_ITEM(arguments, 1);
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

const FileMethod pread_method = {
    .name = "pread",
    .qualified_name = "BinaryFile.pread",
    .attempt = &attempt_pread,
    .slow = &ModuleState::name_pread_slowly,
    .uses_turn = false,
};

const FileMethod pread_many_method = {
    .name = "pread_many",
    .qualified_name = "BinaryFile.pread_many",
    .attempt = &attempt_pread_many,
    .slow = &ModuleState::name_pread_many_slowly,
    .uses_turn = false,
};

/// Puts the arguments into `found`, which has a place for each name. False with an exception set.
bool find_arguments(const char* method, const char* const (&names)[2], PyObject* const* arguments,
                    Py_ssize_t count, PyObject* keywords, PyObject* (&found)[2]) noexcept {
    const Py_ssize_t named = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    if (count + named != 2) {
        PyErr_Format(PyExc_TypeError, "%s() takes 2 arguments, not %zd", method, count + named);
        return false;
    }
    for (Py_ssize_t i = 0; i < count; ++i) {
        found[i] = arguments[i];
    }
    for (Py_ssize_t i = 0; i < named; ++i) {
        PyObject* name = PyTuple_GET_ITEM(keywords, i);
        Py_ssize_t place = 0;
        while (place < 2 && PyUnicode_CompareWithASCIIString(name, names[place]) != 0) {
            ++place;
        }
        if (place == 2 || found[place] != nullptr) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument %R", method,
                         name);
            return false;
        }
        found[place] = arguments[count + i];
    }
    return true;
}

PyObject* call_with_two(PyObject* self, const FileMethod& method, const char* const (&names)[2],
                        PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) noexcept {
    PyObject* found[2] = {};
    if (!find_arguments(method.name, names, arguments, count, keywords, found)) {
        return nullptr;
    }
    const Ref both(PyTuple_Pack(2, found[0], found[1]));
    return both ? make_file_step(file_of(self), method, both.get()) : nullptr;
}

} // namespace

PyObject* call_pread(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                     PyObject* keywords) {
    return call_with_two(self, pread_method, {"size", "offset"}, arguments, count, keywords);
}

PyObject* call_pread_many(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                          PyObject* keywords) {
    return call_with_two(self, pread_many_method, {"size", "offsets"}, arguments, count, keywords);
}

} // namespace penstock::python
