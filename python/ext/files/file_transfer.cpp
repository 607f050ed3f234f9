// Operations on descriptors: read, write, fsync, truncate, close, copy_range.

#include "files/cached_writes.hpp"
#include "files/dirty_page_budget.hpp"
#include "files/file_calls.hpp"
#include "files/file_memory.hpp"
#include "files/file_submission.hpp"
#include "shared/cached_copy.hpp"
#include "shared/cached_opening.hpp"

#include <algorithm>
#include <cerrno>

#include <penstock/io/files/cached_read.hpp>
#include <unistd.h>

namespace penstock::python {

namespace {

constexpr std::int64_t max_cached_write = std::int64_t{64} << 10;

/// The approximate speed of copying.
constexpr std::int64_t bytes_per_nanosecond = 2;

/// Added to the bytes of each operation that is performed at once.
constexpr std::int64_t cost_of_call = 4096;

/// The file offset of the rest of the transfer.
std::int64_t position_of(const FileOperationObject* operation) noexcept {
    return operation->offset < 0 ? io::FileOperation::current_position
                                 : operation->offset + operation->done;
}

Attempt read_cached(FileOperationObject* operation) noexcept {
    using Extent = io::FileOperation::Extent;
    const io::CachedRead read = io::read_from_cache(
        operation->fd, operation->memory + operation->done,
        static_cast<std::size_t>(operation->size - operation->done), position_of(operation),
        operation->offset < 0 ? Extent::once : Extent::whole);
    operation->done += static_cast<std::int64_t>(read.count);
    operation->error = read.error;
    return read.complete ? Attempt::done : Attempt::blocked;
}

Attempt attempt_read(FileOperationObject* operation) {
    if (operation->size == 0) {
        return Attempt::done;
    }
    // The Python part passes only regular files with an offset, and the alignment of those that are
    // open with O_DIRECT, so that a read of a regular file needs no further system call.
    if (operation->size > static_cast<std::int64_t>(io::largest_cached_read) ||
        needs_alignment(operation) ||
        (operation->offset < 0 && !io::supports_cached_reads(operation->fd))) {
        return Attempt::blocked;
    }
    const Attempt attempt =
        copy_from_cache(operation->size, [&] { return read_cached(operation); });
    operation->engine->slice_credit -= operation->done + cost_of_call;
    return attempt;
}

void prepare_read(FileOperationObject* operation) {
    using Extent = io::FileOperation::Extent;
    // A pipe returns its content. A direct read that ends early has reached the end of the file,
    // from which no aligned read can continue.
    const bool once = operation->offset < 0 || needs_alignment(operation);
    operation->request.to_read(operation->fd, operation->memory + operation->done,
                               static_cast<std::size_t>(operation->size - operation->done),
                               position_of(operation), once ? Extent::once : Extent::whole);
}

PyObject* value_of_read(FileOperationObject* operation) {
    if (operation->extra != nullptr) { // through aligned memory
        return PyBytes_FromStringAndSize(operation->memory,
                                         static_cast<Py_ssize_t>(operation->done));
    }
    if (operation->done < operation->size &&
        _PyBytes_Resize(&operation->target, static_cast<Py_ssize_t>(operation->done)) != 0) {
        return nullptr;
    }
    return std::exchange(operation->target, nullptr);
}

PyObject* value_of_count(FileOperationObject* operation) {
    return PyLong_FromLongLong(operation->done);
}

Attempt attempt_write(FileOperationObject* operation) {
    if (operation->size == 0) {
        return Attempt::done;
    }
    if (!operation->may_block_briefly || operation->offset < 0) {
        return Attempt::blocked;
    }
    const CachedWrite written = write_to_cache(operation->engine, operation->fd, operation->memory,
                                               operation->size, operation->offset);
    operation->done = written.done;
    operation->error = written.error;
    return written.begun ? Attempt::done : Attempt::blocked;
}

void prepare_write(FileOperationObject* operation) {
    operation->request.to_write(operation->fd, operation->memory + operation->done,
                                static_cast<std::size_t>(operation->size - operation->done),
                                position_of(operation));
}

void prepare_fsync(FileOperationObject* operation) {
    operation->request.to_fsync(operation->fd);
}

void prepare_fdatasync(FileOperationObject* operation) {
    operation->request.to_fdatasync(operation->fd);
}

void prepare_truncate(FileOperationObject* operation) {
    operation->request.to_truncate(operation->fd, operation->offset);
}

void prepare_close(FileOperationObject* operation) {
    operation->request.to_close(operation->fd);
}

void prepare_leave(FileOperationObject* operation) {
    operation->request.to_call([](io::FileOperation& /*unused*/) { return std::int64_t{0}; });
}

void prepare_copy_range(FileOperationObject* operation) {
    operation->request.to_copy_range(operation->fd, operation->offset, operation->other_fd,
                                     operation->offset, static_cast<std::size_t>(operation->size));
}

Attempt attempt_close(FileOperationObject* operation) {
    // Nothing was written, so closing has nothing to wait for, unless a server is told.
    if (!operation->may_block_briefly || is_in_use(operation->engine, operation->fd) ||
        is_remote(operation->fd)) {
        return Attempt::blocked;
    }
    if (::close(operation->fd) != 0 && errno != EINTR) {
        operation->error = errno;
    }
    operation->engine->slice_credit -= cost_of_call;
    return Attempt::done;
}

} // namespace

CachedWrite write_to_cache(FileEngineObject* engine, int fd, const char* data, std::int64_t size,
                           std::int64_t offset) noexcept {
    CachedWrite written;
    if (size > max_cached_write || !engine->dirty_pages->take(size)) {
        return written;
    }
    written.begun = true;
    const io::MonotonicTime began = io::monotonic_now();
    while (written.done < size && written.error == 0) {
        const ssize_t count =
            ::pwrite(fd, data + written.done, static_cast<std::size_t>(size - written.done),
                     static_cast<off_t>(offset + written.done));
        if (count >= 0) {
            written.done += count;
        } else if (errno != EINTR) {
            written.error = errno;
        }
    }
    const io::MonotonicTime ended = io::monotonic_now();
    engine->dirty_pages->note_write(began, ended);
    // New pages may cost ten times as much as reused ones.
    engine->slice_credit -= std::max(size, bytes_per_nanosecond * (ended - began));
    return written;
}

bool truncate_at_once(FileEngineObject* engine, int fd, std::int64_t length) noexcept {
    struct statx status = {};
    if (!read_local_status(fd, status) ||
        static_cast<std::int64_t>(status.stx_size) - length > max_cached_write ||
        !engine->dirty_pages->take(cost_of_call)) {
        return false;
    }
    const io::MonotonicTime began = io::monotonic_now();
    int failed = ::ftruncate(fd, static_cast<off_t>(length));
    while (failed != 0 && errno == EINTR) {
        failed = ::ftruncate(fd, static_cast<off_t>(length));
    }
    const io::MonotonicTime ended = io::monotonic_now();
    engine->dirty_pages->note_write(began, ended);
    engine->slice_credit -= std::max(cost_of_call, bytes_per_nanosecond * (ended - began));
    return failed == 0;
}

const FileCall read_call = {
    .name = "read",
    .attempt = &attempt_read,
    .prepare = &prepare_read,
    .value = &value_of_read,
    .may_never_end = true,
};

const FileCall read_into_call = {
    .name = "read_into",
    .attempt = &attempt_read,
    .prepare = &prepare_read,
    .value = &value_of_count,
    .may_never_end = true,
};

const FileCall write_call = {
    .name = "write",
    .attempt = &attempt_write,
    .prepare = &prepare_write,
    .value = &value_of_count,
    .may_never_end = true,
};

const FileCall fsync_call = {
    .name = "fsync",
    .prepare = &prepare_fsync,
};

const FileCall fdatasync_call = {
    .name = "fdatasync",
    .prepare = &prepare_fdatasync,
};

const FileCall truncate_call = {
    .name = "truncate",
    .prepare = &prepare_truncate,
};

const FileCall close_call = {
    .name = "close",
    .attempt = &attempt_close,
    .prepare = &prepare_close,
    .ends_descriptor = true,
};

const FileCall leave_call = {
    .name = "leave",
    .prepare = &prepare_leave,
    .ends_descriptor = true,
};

const FileCall copy_range_call = {
    .name = "copy_range",
    .prepare = &prepare_copy_range,
    .value = &value_of_count,
};

} // namespace penstock::python
