// The methods of FileEngine: one for each file operation.

#include "files/file_engine.hpp"

#include "files/cached_questions.hpp"
#include "files/file_batches.hpp"
#include "files/file_calls.hpp"
#include "files/file_memory.hpp"
#include "files/file_submission.hpp"
#include "files/file_time_slice.hpp"
#include "shared/cached_opening.hpp"

#include <algorithm>

#include <fcntl.h>
#include <penstock/io/files/read_status.hpp>
#include <sys/stat.h>

namespace penstock::python {

namespace {

FileEngineObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<FileEngineObject*>(object);
}

// ---- arguments
// ------------------------------------------------------------------------------------

/// A path in the system's encoding, and as the caller passed it, for error messages.
struct Path {
    Ref subject;
    Ref encoded;

    void move_to(PyObject*& given, PyObject*& bytes) noexcept {
        given = subject.release();
        bytes = encoded.release();
    }
};

/// The arguments of a method call. Converting one may run Python code (`__index__`, `fileno`,
/// `__fspath__`), so all of them are converted before the operation is made. After the first
/// invalid one the others are not converted.
class Arguments {
public:
    Arguments(PyObject* const* values, Py_ssize_t count) noexcept
        : values_(values), count_(count) {}

    [[nodiscard]] bool check_count(const char* method, Py_ssize_t least, Py_ssize_t most) noexcept {
        if (count_ >= least && count_ <= most) {
            return true;
        }
        PyErr_Format(PyExc_TypeError, "%s() takes %zd to %zd arguments, not %zd", method, least,
                     most, count_);
        return false;
    }

    [[nodiscard]] bool has(Py_ssize_t index) const noexcept { return index < count_; }
    [[nodiscard]] PyObject* operator[](Py_ssize_t index) const noexcept { return values_[index]; }

    /// The integer at `index`, or `otherwise` if there is none.
    std::int64_t integer(Py_ssize_t index, std::int64_t otherwise) noexcept {
        if (failed_ || !has(index)) {
            return otherwise;
        }
        const long long value = PyLong_AsLongLong(values_[index]);
        failed_ = value == -1 && PyErr_Occurred() != nullptr;
        return value;
    }

    /// The truth of the value at `index`, or `otherwise` if there is none.
    bool truth(Py_ssize_t index, bool otherwise) noexcept {
        if (failed_ || !has(index)) {
            return otherwise;
        }
        const int value = PyObject_IsTrue(values_[index]);
        failed_ = value < 0;
        return value > 0;
    }

    int descriptor(Py_ssize_t index) noexcept {
        if (failed_) {
            return -1;
        }
        const int fd = PyObject_AsFileDescriptor(values_[index]);
        failed_ = fd < 0;
        return fd;
    }

    Path path(Py_ssize_t index) noexcept {
        PyObject* encoded = nullptr;
        if (failed_ || PyUnicode_FSConverter(values_[index], static_cast<void*>(&encoded)) == 0) {
            failed_ = true;
            return {};
        }
        return {Ref::borrow(values_[index]), Ref(encoded)};
    }

    /// A new operation if all conversions succeeded; null with an exception set.
    FileOperationObject* make(PyObject* engine, const FileCall& call) noexcept {
        return !failed_ && check_open(self_of(engine)) ? make_file_operation(self_of(engine), call)
                                                       : nullptr;
    }

private:
    PyObject* const* values_;
    Py_ssize_t count_;
    bool failed_ = false;
};

// ---- operations
// -----------------------------------------------------------------------------------

PyObject* engine_open(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count("open", 2, 3)) {
        return nullptr;
    }
    Path path = arguments.path(0);
    const auto flags = static_cast<int>(arguments.integer(1, 0));
    const auto mode = static_cast<std::uint32_t>(arguments.integer(2, 0666));
    FileOperationObject* operation = arguments.make(self, open_call);
    if (operation != nullptr) {
        path.move_to(operation->subject, operation->path);
        operation->flags = flags;
        operation->mode = mode;
    }
    return as_object(operation);
}

PyObject* engine_close(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count("close", 1, 2)) {
        return nullptr;
    }
    const int fd = arguments.descriptor(0);
    const bool at_once = arguments.integer(1, 0) != 0;
    FileOperationObject* operation = arguments.make(self, close_call);
    if (operation != nullptr) {
        operation->fd = fd;
        operation->may_block_briefly = at_once;
    }
    return as_object(operation);
}

PyObject* engine_abandon(PyObject* self, PyObject* descriptor) {
    const int fd = PyObject_AsFileDescriptor(descriptor);
    if (fd < 0 || !close_in_background(self_of(self), fd)) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

PyObject* engine_uses(PyObject* self, PyObject* descriptor) {
    const int fd = PyObject_AsFileDescriptor(descriptor);
    return fd >= 0 ? PyBool_FromLong(is_in_use(self_of(self), fd) ? 1 : 0) : nullptr;
}

PyObject* engine_is_remote(PyObject* /*self*/, PyObject* descriptor) {
    const int fd = PyObject_AsFileDescriptor(descriptor);
    return fd >= 0 ? PyBool_FromLong(is_remote(fd) ? 1 : 0) : nullptr;
}

PyObject* engine_read(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count("read", 3, 4)) {
        return nullptr;
    }
    const int fd = arguments.descriptor(0);
    const std::int64_t size = arguments.integer(1, 0);
    const std::int64_t offset = arguments.integer(2, -1);
    const std::int64_t alignment = arguments.integer(3, 1);
    FileOperationObject* operation = arguments.make(self, read_call);
    if (operation == nullptr) {
        return nullptr;
    }
    operation->fd = fd;
    operation->size = size;
    operation->offset = offset;
    operation->alignment = alignment;
    if (size < 0) {
        PyErr_Format(PyExc_ValueError, "cannot read %lld bytes", static_cast<long long>(size));
        return refuse_operation(operation);
    }
    return allocate_bytes(operation) ? as_object(operation) : refuse_operation(operation);
}

PyObject* engine_read_into(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count("read_into", 3, 4)) {
        return nullptr;
    }
    const int fd = arguments.descriptor(0);
    const std::int64_t offset = arguments.integer(2, -1);
    const std::int64_t alignment = arguments.integer(3, 1);
    FileOperationObject* operation = arguments.make(self, read_into_call);
    if (operation == nullptr) {
        return nullptr;
    }
    operation->fd = fd;
    operation->offset = offset;
    operation->alignment = alignment;
    return export_buffer(operation, arguments[1], true) ? as_object(operation)
                                                        : refuse_operation(operation);
}

PyObject* engine_write(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count("write", 3, 5)) {
        return nullptr;
    }
    const int fd = arguments.descriptor(0);
    const std::int64_t offset = arguments.integer(2, -1);
    const std::int64_t alignment = arguments.integer(3, 1);
    const bool cached = arguments.integer(4, 0) != 0;
    FileOperationObject* operation = arguments.make(self, write_call);
    if (operation == nullptr) {
        return nullptr;
    }
    operation->fd = fd;
    operation->offset = offset;
    operation->alignment = alignment;
    operation->may_block_briefly = cached;
    return export_buffer(operation, arguments[1], false) ? as_object(operation)
                                                         : refuse_operation(operation);
}

template <const FileCall& call>
PyObject* engine_on_descriptor(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count(call.name, 1, 2)) {
        return nullptr;
    }
    const int fd = arguments.descriptor(0);
    const std::int64_t offset = arguments.integer(1, 0);
    FileOperationObject* operation = arguments.make(self, call);
    if (operation != nullptr) {
        operation->fd = fd;
        operation->offset = offset;
    }
    return as_object(operation);
}

template <const FileCall& call> PyObject* engine_on_path(PyObject* self, PyObject* path) {
    Arguments arguments(&path, 1);
    Path converted = arguments.path(0);
    FileOperationObject* operation = arguments.make(self, call);
    if (operation != nullptr) {
        converted.move_to(operation->subject, operation->path);
    }
    return as_object(operation);
}

template <const FileCall& call>
PyObject* engine_on_two_paths(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count(call.name, 2, 2)) {
        return nullptr;
    }
    Path source = arguments.path(0);
    Path target = arguments.path(1);
    FileOperationObject* operation = arguments.make(self, call);
    if (operation != nullptr) {
        source.move_to(operation->subject, operation->path);
        target.move_to(operation->other_subject, operation->other_path);
    }
    return as_object(operation);
}

PyObject* engine_mkdir(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count("mkdir", 1, 2)) {
        return nullptr;
    }
    Path path = arguments.path(0);
    const auto mode = static_cast<std::uint32_t>(arguments.integer(1, 0777));
    FileOperationObject* operation = arguments.make(self, mkdir_call);
    if (operation != nullptr) {
        path.move_to(operation->subject, operation->path);
        operation->mode = mode;
    }
    return as_object(operation);
}

PyObject* engine_stat(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count("stat", 1, 2)) {
        return nullptr;
    }
    const bool by_descriptor = PyLong_Check(arguments[0]);
    const int fd = by_descriptor ? arguments.descriptor(0) : -1;
    Path path = by_descriptor ? Path{Ref::borrow(arguments[0]), Ref()} : arguments.path(0);
    const int follow = arguments.truth(1, true) ? 0 : AT_SYMLINK_NOFOLLOW;
    FileOperationObject* operation = arguments.make(self, stat_call);
    if (operation != nullptr) {
        path.move_to(operation->subject, operation->path);
        operation->fd = fd;
        operation->flags = by_descriptor ? AT_EMPTY_PATH : follow;
    }
    return as_object(operation);
}

PyObject* engine_copy_range(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count("copy_range", 4, 4)) {
        return nullptr;
    }
    const int source = arguments.descriptor(0);
    const int target = arguments.descriptor(1);
    const std::int64_t offset = arguments.integer(2, 0);
    constexpr std::int64_t largest_copy = std::int64_t{1} << 30;
    const std::int64_t size = std::min(arguments.integer(3, 0), largest_copy);
    FileOperationObject* operation = arguments.make(self, copy_range_call);
    if (operation != nullptr) {
        operation->fd = source;
        operation->other_fd = target;
        operation->offset = offset;
        operation->size = size;
    }
    return as_object(operation);
}

PyObject* engine_lock(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count("lock", 2, 2)) {
        return nullptr;
    }
    const int fd = arguments.descriptor(0);
    const auto type = static_cast<int>(arguments.integer(1, 0));
    FileOperationObject* operation = arguments.make(self, lock_call);
    if (operation != nullptr) {
        operation->fd = fd;
        operation->flags = type;
    }
    return as_object(operation);
}

PyObject* engine_call(PyObject* self, PyObject* function) {
    FileOperationObject* operation = Arguments(nullptr, 0).make(self, python_call);
    if (operation != nullptr) {
        operation->target = Py_NewRef(function);
    }
    return as_object(operation);
}

/// The arguments are (operations, most, take), where `operations` is an iterator.
PyObject* engine_start_many(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    if (count != 3 || PyIter_Check(values[0]) == 0) {
        PyErr_SetString(PyExc_TypeError, "start_many() takes an iterator, a number and a function");
        return nullptr;
    }
    const Py_ssize_t most = PyLong_AsSsize_t(values[1]);
    if (most == -1 && PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    FileEngineObject* engine = self_of(self);
    ++engine->gathering;
    Py_ssize_t started = 0;
    bool succeeded = true;
    while (succeeded && started < most) {
        const Ref operation(PyIter_Next(values[0]));
        if (!operation) {
            succeeded = PyErr_Occurred() == nullptr;
            break;
        }
        const Ref begun(PyObject_CallMethodNoArgs(operation.get(), engine->state->name_start));
        succeeded = begun && Ref(PyObject_CallOneArg(values[2], begun.get()));
        ++started;
    }
    --engine->gathering;
    Ref exception = take_exception();
    submit_prepared(engine);
    if (!succeeded) {
        raise_exception(std::move(exception));
        return nullptr;
    }
    return PyLong_FromSsize_t(started);
}

PyObject* engine_yield_now(PyObject* self, PyObject* /*unused*/) {
    return as_object(Arguments(nullptr, 0).make(self, yield_call));
}

PyObject* engine_should_yield(PyObject* self, PyObject* cost) {
    const long long bytes = PyLong_AsLongLong(cost);
    if (bytes == -1 && PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    if (bytes < 0) {
        return PyErr_Format(PyExc_ValueError, "cost must be at least 0, not %lld", bytes);
    }
    return PyBool_FromLong(should_yield(self_of(self), bytes) ? 1 : 0);
}

/// Describes an open file without a query to a device or a server: (mode, size, preferred block
/// size, alignment of memory, alignment of offsets). The last two are 0 if the file system does not
/// report them.
PyObject* engine_describe(PyObject* /*self*/, PyObject* descriptor) {
    const int fd = PyObject_AsFileDescriptor(descriptor);
    if (fd < 0) {
        return nullptr;
    }
#ifndef STATX_DIOALIGN
    constexpr unsigned STATX_DIOALIGN = 0x2000;
#endif
    struct statx status = {};
    if (io::read_status(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
                        STATX_BASIC_STATS | STATX_DIOALIGN, status) != 0) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    // stx_dio_mem_align and stx_dio_offset_align (Linux 6.1) follow stx_mnt_id.
    const auto* alignments =
        reinterpret_cast<const std::uint32_t*>(reinterpret_cast<const char*>(&status) + 0x98);
    const bool reported = (status.stx_mask & STATX_DIOALIGN) != 0;
    return Py_BuildValue("iLiII", static_cast<int>(status.stx_mode),
                         static_cast<long long>(status.stx_size),
                         static_cast<int>(status.stx_blksize), reported ? alignments[0] : 0U,
                         reported ? alignments[1] : 0U);
}

// ---- the engine itself
// -----------------------------------------------------------------------------

PyObject* engine_process(PyObject* self, PyObject* /*unused*/) {
    FileEngineObject* engine = self_of(self);
    if (engine->io != nullptr) {
        engine->io->process();
    }
    if (engine->raised != nullptr) {
        raise_exception(Ref(std::exchange(engine->raised, nullptr)));
        return nullptr;
    }
    Py_RETURN_NONE;
}

PyObject* engine_fileno(PyObject* self, PyObject* /*unused*/) {
    const FileEngineObject* engine = self_of(self);
    return check_open(self_of(self)) ? PyLong_FromLong(engine->io->descriptor()) : nullptr;
}

PyObject* engine_shutdown(PyObject* self, PyObject* /*unused*/) {
    FileEngineObject* engine = self_of(self);
    if (engine->deliveries > 0 && !engine->closing) {
        PyErr_SetString(
            PyExc_RuntimeError,
            "a file engine cannot be shut down by a task that it resumes; shut it down from "
            "a callback of the loop, later");
        return nullptr;
    }
    close_file_engine(engine);
    Py_RETURN_NONE;
}

} // namespace

PyMethodDef file_engine_methods[] = {
    {"open", as_function(&engine_open), METH_FASTCALL, "open(path, flags, mode=0o666) -> int"},
    {"close", as_function(&engine_close), METH_FASTCALL,
     "close(fd, at_once=False): close a descriptor once nothing uses it."},
    {"leave", as_function(&engine_on_descriptor<leave_call>), METH_FASTCALL,
     "leave(fd): wait until nothing uses a descriptor, which stays open."},
    {"abandon", &engine_abandon, METH_O, "Close a descriptor in the background."},
    {"uses", &engine_uses, METH_O,
     "uses(fd) -> bool: whether an operation on a descriptor is in flight, or is about to begin."},
    {"is_remote", &engine_is_remote, METH_O,
     "is_remote(fd) -> bool: whether the file is known to be a server's or a daemon's."},
    {"read", as_function(&engine_read), METH_FASTCALL,
     "read(fd, size, offset, alignment=1) -> bytes; fewer than size only at the end of the file."},
    {"read_into", as_function(&engine_read_into), METH_FASTCALL,
     "read_into(fd, buffer, offset, alignment=1) -> int"},
    {"write", as_function(&engine_write), METH_FASTCALL,
     "write(fd, data, offset, alignment=1, cached=False) -> int: write all data."},
    {"fsync", as_function(&engine_on_descriptor<fsync_call>), METH_FASTCALL, "fsync(fd)"},
    {"fdatasync", as_function(&engine_on_descriptor<fdatasync_call>), METH_FASTCALL,
     "fdatasync(fd)"},
    {"truncate", as_function(&engine_on_descriptor<truncate_call>), METH_FASTCALL,
     "truncate(fd, length)"},
    {"read_file", &engine_on_path<read_file_call>, METH_O, "read_file(path) -> bytes"},
    {"stat", as_function(&engine_stat), METH_FASTCALL,
     "stat(path_or_fd, follow_symlinks=True) -> os.stat_result"},
    {"rename", as_function(&engine_on_two_paths<rename_call>), METH_FASTCALL,
     "rename(source, target)"},
    {"replace", as_function(&engine_on_two_paths<rename_call>), METH_FASTCALL,
     "replace(source, target)"},
    {"link", as_function(&engine_on_two_paths<link_call>), METH_FASTCALL, "link(source, target)"},
    {"unlink", &engine_on_path<unlink_call>, METH_O, "unlink(path)"},
    {"rmdir", &engine_on_path<rmdir_call>, METH_O, "rmdir(path)"},
    {"mkdir", as_function(&engine_mkdir), METH_FASTCALL, "mkdir(path, mode=0o777)"},
    {"copy_range", as_function(&engine_copy_range), METH_FASTCALL,
     "copy_range(source_fd, target_fd, offset, length) -> int"},
    {"lock", as_function(&engine_lock), METH_FASTCALL,
     "lock(fd, type): wait for an open file description lock of the whole file."},
    {"read_many_cached", as_function(&engine_read_many_cached), METH_FASTCALL,
     "read_many_cached(fd, size, offsets) -> list; a tuple with None where a read would wait."},
    {"read_files_cached", as_function(&engine_read_files_cached), METH_FASTCALL,
     "read_files_cached(paths, found): append the contents of files while the cache has them."},
    {"access_cached", as_function(&engine_access_cached), METH_FASTCALL,
     "access_cached(path, mode) -> bool, or None if it would have to wait."},
    {"call", &engine_call, METH_O, "Call a function on a worker thread; returns its result."},
    {"start_many", as_function(&engine_start_many), METH_FASTCALL,
     "start_many(operations, most, take) -> int: start operations of an iterator, submit them "
     "together, and pass each to `take`; returns how many."},
    {"yield_now", &engine_yield_now, METH_NOARGS, "yield_now(): yield to other tasks."},
    {"should_yield", &engine_should_yield, METH_O,
     "should_yield(cost) -> bool: whether a task that never waits should yield."},
    {"describe", &engine_describe, METH_O,
     "describe(fd) -> (mode, size, block size, memory alignment, offset alignment)"},
    {"fileno", &engine_fileno, METH_NOARGS,
     "A descriptor that is readable when there is work for `process`."},
    {"process", &engine_process, METH_NOARGS, "Process completions."},
    {"shutdown", &engine_shutdown, METH_NOARGS, "Wait for the operations in flight, and close."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace penstock::python
