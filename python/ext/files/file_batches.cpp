// Reads from the page cache, several in one call, without an operation for each.

#include "files/file_batches.hpp"

#include "shared/cached_copy.hpp"

#include <new>
#include <vector>

namespace penstock::python {

namespace {

struct Read {
    PyObject* target; ///< owned; bytes
    std::int64_t offset;
    io::CachedRead result;
};

/// What is read; frees what is not passed on.
struct Reads {
    std::vector<Read> all;

    Reads() = default;
    Reads(const Reads&) = delete;
    Reads& operator=(const Reads&) = delete;
    ~Reads() {
        for (const Read& read : all) {
            Py_XDECREF(read.target);
        }
    }
};

/// Allocates the result of each read. False with an exception set.
bool allocate(Reads& reads, PyObject* offsets, Py_ssize_t size) {
    reads.all.reserve(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(offsets)));
    // Its `__index__` may change a list.
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(offsets); ++i) {
        const Ref given = Ref::borrow(PySequence_Fast_GET_ITEM(offsets, i));
        const long long offset = PyLong_AsLongLong(given.get());
        if (offset < 0) {
            if (PyErr_Occurred() == nullptr) {
                PyErr_Format(PyExc_ValueError, "offset %lld is negative", offset);
            }
            return false;
        }
        PyObject* target = PyBytes_FromStringAndSize(nullptr, size);
        if (target == nullptr) {
            return false;
        }
        reads.all.push_back({.target = target, .offset = offset, .result = {}});
    }
    return true;
}

/// The result of a read, which is taken from it. Null with an exception set.
PyObject* take(Read& read, Py_ssize_t size) noexcept {
    if (!read.result.complete || read.result.error != 0) {
        return Py_NewRef(Py_None);
    }
    const auto count = static_cast<Py_ssize_t>(read.result.count);
    if (count < size && _PyBytes_Resize(&read.target, count) != 0) {
        return nullptr;
    }
    return std::exchange(read.target, nullptr);
}

PyObject* read_many(int fd, Py_ssize_t size, PyObject* offsets) {
    Reads reads;
    if (!allocate(reads, offsets, size)) {
        return nullptr;
    }
    const auto total = static_cast<std::int64_t>(reads.all.size()) * size;
    copy_from_cache(total, [&] {
        for (Read& read : reads.all) {
            read.result = io::read_from_cache(fd, PyBytes_AS_STRING(read.target),
                                              static_cast<std::size_t>(size), read.offset,
                                              io::FileOperation::Extent::whole);
        }
        return true;
    });
    Ref results(PyList_New(static_cast<Py_ssize_t>(reads.all.size())));
    if (!results) {
        return nullptr;
    }
    Py_ssize_t index = 0;
    bool complete = true;
    for (Read& read : reads.all) {
        PyObject* value = take(read, size);
        if (value == nullptr) {
            return nullptr;
        }
        complete = complete && value != Py_None;
        PyList_SET_ITEM(results.get(), index++, value);
    }
    return complete ? results.release() : PyList_AsTuple(results.get());
}

} // namespace

PyObject* engine_read_many_cached(PyObject* /*self*/, PyObject* const* values,
                                  Py_ssize_t count) noexcept {
    if (count != 3) {
        return PyErr_Format(PyExc_TypeError, "read_many_cached() takes 3 arguments, not %zd",
                            count);
    }
    const int fd = PyObject_AsFileDescriptor(values[0]);
    const Py_ssize_t size = fd < 0 ? -1 : PyLong_AsSsize_t(values[1]);
    if (size < 0) {
        if (PyErr_Occurred() == nullptr) {
            PyErr_Format(PyExc_ValueError, "cannot read %zd bytes", size);
        }
        return nullptr;
    }
    const Ref offsets(PySequence_Fast(values[2], "the offsets must be a sequence of integers"));
    if (!offsets) {
        return nullptr;
    }
    return read_many_cached(fd, size, offsets.get());
}

PyObject* read_many_cached(int fd, Py_ssize_t size, PyObject* offsets) noexcept {
    try {
        return read_many(fd, size, offsets);
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

} // namespace penstock::python
