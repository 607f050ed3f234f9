// Reads from the page cache, several in one call, without an operation for each.

#include "files/file_batches.hpp"

#include "files/file_time_slice.hpp"
#include "files/system_path.hpp"
#include "shared/cached_copy.hpp"
#include "shared/cached_opening.hpp"

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

// ---- whole files
// ----------------------------------------------------------------------------------

/// Of the loop's time slice, in bytes that could be copied meanwhile: opening and closing.
constexpr std::int64_t cost_of_opening = 12288;

/// Reads a file. Null, without an exception, if that would have to wait, and for every error.
Ref read_file_cached(FileEngineObject* engine, const char* path) noexcept {
    engine->slice_credit -= cost_of_opening;
    const CachedFile found = open_regular_from_cache(path, O_RDONLY);
    const OwnedDescriptor file(found.fd);
    if (found.fd < 0 || found.size >= max_cached_file) {
        return Ref();
    }
    engine->slice_credit -= found.size;
    // With room for one byte more than the file has, a short read shows its end.
    const auto size = static_cast<Py_ssize_t>(found.size);
    PyObject* content = PyBytes_FromStringAndSize(nullptr, size + 1);
    if (content == nullptr) {
        PyErr_Clear();
        return Ref();
    }
    const io::CachedRead read = copy_from_cache(size, [&] {
        return io::read_from_cache(found.fd, PyBytes_AS_STRING(content),
                                   static_cast<std::size_t>(size) + 1, 0,
                                   io::FileOperation::Extent::once);
    });
    if (!read.complete || read.error != 0 || read.count != static_cast<std::size_t>(size)) {
        Py_DECREF(content);
        return Ref();
    }
    if (_PyBytes_Resize(&content, size) != 0) {
        PyErr_Clear();
    }
    return Ref(content);
}

/// Reads the file at a path. Null without an exception also for what is no path.
Ref read_path_cached(FileEngineObject* engine, PyObject* given) noexcept {
    const SystemPath path(given);
    if (path) {
        return read_file_cached(engine, path.text());
    }
    if (PyErr_ExceptionMatches(PyExc_Exception) != 0) {
        PyErr_Clear(); // the engine's operation raises it
    }
    return Ref();
}

} // namespace

PyObject* engine_read_files_cached(PyObject* self, PyObject* const* values,
                                   Py_ssize_t count) noexcept {
    if (count != 2 || PyIter_Check(values[0]) == 0 || PyList_Check(values[1]) == 0) {
        PyErr_SetString(PyExc_TypeError, "read_files_cached() takes an iterator and a list");
        return nullptr;
    }
    auto* engine = reinterpret_cast<FileEngineObject*>(self);
    if (!check_open(engine)) {
        return nullptr;
    }
    if (engine->loop == nullptr) {
        Py_RETURN_NONE;
    }
    while (!should_yield(engine)) {
        const Ref path(PyIter_Next(values[0]));
        if (!path) {
            return PyErr_Occurred() == nullptr ? Py_NewRef(Py_False) : nullptr;
        }
        if (!check_open(engine)) { // the iterator may have ended the loop
            return nullptr;
        }
        const Ref content = read_path_cached(engine, path.get());
        if (!content) {
            return PyErr_Occurred() == nullptr ? PyTuple_Pack(1, path.get()) : nullptr;
        }
        if (PyList_Append(values[1], content.get()) != 0) {
            return nullptr;
        }
    }
    Py_RETURN_TRUE;
}

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
