// Answers from the kernel's caches, several in one call, without an operation for each.

#include "files/file_batches.hpp"

#include "files/file_time_slice.hpp"
#include "shared/cached_copy.hpp"
#include "shared/cached_opening.hpp"

#include <cerrno>
#include <memory>
#include <vector>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

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
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(offsets);
    reads.all.reserve(static_cast<std::size_t>(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
        const long long offset = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(offsets, i));
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

/// Whether lookups, which use the effective user, see what access(2) does, which uses the real one.
bool has_one_identity() noexcept {
    uid_t user = 0;
    uid_t effective_user = 0;
    uid_t saved_user = 0;
    gid_t group = 0;
    gid_t effective_group = 0;
    gid_t saved_group = 0;
    return ::getresuid(&user, &effective_user, &saved_user) == 0 &&
           ::getresgid(&group, &effective_group, &saved_group) == 0 && user == effective_user &&
           group == effective_group;
}

constexpr long faccessat2_number = 439;

/// 0 or an errno; EAGAIN if it would have to wait.
int access_from_cache(const char* path, int mode) noexcept {
    if (!has_one_identity()) {
        return EAGAIN;
    }
    const OwnedDescriptor found(io::open_from_cache(path, O_PATH | O_CLOEXEC));
    if (found.get() < 0) {
        const int error = -found.get();
        return error == EMFILE || error == ENFILE ? EAGAIN : error;
    }
    if (mode == F_OK) {
        return 0;
    }
    struct statx status = {};
    if (!read_local_status(found.get(), status)) {
        return EAGAIN;
    }
    if (::syscall(faccessat2_number, found.get(), "", mode, AT_EMPTY_PATH) == 0) {
        return 0;
    }
    // Before Linux 5.8, and in some sandboxes, only access(2) can say.
    return errno == EACCES || errno == EROFS ? errno : EAGAIN;
}

/// Of the loop's time slice, in bytes that could be copied meanwhile: three system calls.
constexpr std::int64_t cost_of_question = 8192;

/// Whether a question may be answered now. If not, the operation that the caller makes instead
/// finds that its task should yield.
bool may_answer(FileEngineObject* engine) noexcept {
    if (!should_yield(engine, cost_of_question)) {
        return true;
    }
    engine->slice_credit = 0;
    return false;
}

PyObject* none_unless_raised() noexcept {
    return PyErr_Occurred() == nullptr ? Py_NewRef(Py_None) : nullptr;
}

/// The arguments are (path, follow_symlinks). Returns 0 if there is no such file, otherwise what
/// `answer` says of the file: -1 if it would have to wait. -1 also for other errors, and with an
/// exception set.
template <typename Answer>
int ask_cache(PyObject* self, PyObject* const* values, Py_ssize_t count, Answer answer) noexcept {
    auto* engine = reinterpret_cast<FileEngineObject*>(self);
    PyObject* encoded = nullptr;
    if (count != 2) {
        PyErr_Format(PyExc_TypeError, "takes a path and follow_symlinks, not %zd arguments", count);
        return -1;
    }
    if (PyUnicode_FSConverter(values[0], static_cast<void*>(&encoded)) == 0) {
        return -1;
    }
    const Ref path(encoded);
    // On trio every question is a checkpoint.
    if (!check_open(engine) || engine->loop == nullptr || !may_answer(engine)) {
        return -1;
    }
    const int follow = values[1] != Py_False ? 0 : O_NOFOLLOW;
    const OwnedDescriptor found(
        io::open_from_cache(PyBytes_AS_STRING(path.get()), O_PATH | O_CLOEXEC | follow));
    if (found.get() < 0) {
        return found.get() == -ENOENT || found.get() == -ENOTDIR ? 0 : -1;
    }
    return answer(found);
}

} // namespace

PyObject* engine_mode_cached(PyObject* self, PyObject* const* values, Py_ssize_t count) noexcept {
    const int mode = ask_cache(self, values, count, [](const OwnedDescriptor& found) {
        struct statx status = {};
        return read_local_status(found.get(), status) ? static_cast<int>(status.stx_mode) : -1;
    });
    return mode >= 0 ? PyLong_FromLong(mode) : none_unless_raised();
}

PyObject* engine_exists_cached(PyObject* self, PyObject* const* values, Py_ssize_t count) noexcept {
    const int answer =
        ask_cache(self, values, count, [](const OwnedDescriptor& /*unused*/) { return 1; });
    return answer >= 0 ? PyBool_FromLong(answer) : none_unless_raised();
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
    try {
        return read_many(fd, size, offsets.get());
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

PyObject* engine_access_cached(PyObject* /*self*/, PyObject* const* values,
                               Py_ssize_t count) noexcept {
    if (count != 2) {
        return PyErr_Format(PyExc_TypeError, "access_cached() takes 2 arguments, not %zd", count);
    }
    PyObject* encoded = nullptr;
    if (PyUnicode_FSConverter(values[0], static_cast<void*>(&encoded)) == 0) {
        return nullptr;
    }
    const Ref path(encoded);
    const long mode = PyLong_AsLong(values[1]);
    if (mode == -1 && PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    const int error = access_from_cache(PyBytes_AS_STRING(path.get()), static_cast<int>(mode));
    if (error == EAGAIN) {
        Py_RETURN_NONE;
    }
    return PyBool_FromLong(error == 0 ? 1 : 0);
}

} // namespace penstock::python
