// Reading, writing and what else takes a descriptor.

#include "cached_copy.hpp"
#include "dirty_room.hpp"
#include "file_calls.hpp"
#include "file_flight.hpp"
#include "file_memory.hpp"

#include <algorithm>
#include <cerrno>

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace penstock::python {

namespace {

/// What is copied on the loop's thread at most: less than a millisecond.
constexpr std::int64_t largest_read_at_once = std::int64_t{2} << 20;
constexpr std::int64_t largest_write_at_once = std::int64_t{64} << 10;

/// About what copying does.
constexpr std::int64_t bytes_per_nanosecond = 2;

/// What any operation at once counts beside its bytes.
constexpr std::int64_t cost_of_call = 4096;

/// Files of memory never wait for a device, and their file system does not know RWF_NOWAIT.
bool is_in_memory(int fd) noexcept {
    struct statfs system = {};
    return ::fstatfs(fd, &system) == 0 &&
           (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
}

/// What cannot be asked for what is there: a terminal's driver waits in spite of RWF_NOWAIT.
bool is_device(int fd) noexcept {
    struct stat status = {};
    return ::fstat(fd, &status) == 0 && S_ISCHR(status.st_mode);
}

/// Where what is left to do belongs.
std::int64_t position_of(const FileOperationObject* operation) noexcept {
    return operation->offset < 0 ? io::FileOperation::current_position
                                 : operation->offset + operation->done;
}

ssize_t read_without_waiting(const FileOperationObject* operation, int flags) noexcept {
    const iovec part{.iov_base = operation->memory + operation->done,
                     .iov_len = static_cast<std::size_t>(operation->size - operation->done)};
    return ::preadv2(operation->fd, &part, 1, position_of(operation), flags);
}

Attempt read_from_cache(FileOperationObject* operation) noexcept {
    int flags = RWF_NOWAIT;
    for (;;) {
        const ssize_t count = read_without_waiting(operation, flags);
        if (count > 0) {
            operation->done += count;
            if (operation->done == operation->size || operation->offset < 0) {
                return Attempt::done;
            }
            continue;
        }
        if (count == 0) {
            return Attempt::done;
        }
        if (errno == EINTR) {
            continue;
        }
        if (errno == EOPNOTSUPP && flags != 0 && is_in_memory(operation->fd)) {
            flags = 0;
            continue;
        }
        if (errno == EAGAIN || errno == EOPNOTSUPP) {
            return Attempt::blocked;
        }
        operation->error = errno;
        return Attempt::done;
    }
}

Attempt attempt_read(FileOperationObject* operation) {
    if (operation->size == 0) {
        return Attempt::done;
    }
    // Direct reads wait for the device in spite of RWF_NOWAIT.
    if (operation->size > largest_read_at_once || needs_alignment(operation) ||
        (operation->offset < 0 && is_device(operation->fd))) {
        return Attempt::blocked;
    }
    const Attempt attempt =
        copy_from_cache(operation->size, [&] { return read_from_cache(operation); });
    operation->engine->turn_credit -= operation->done + cost_of_call;
    return attempt;
}

void prepare_read(FileOperationObject* operation) {
    using Extent = io::FileOperation::Extent;
    // A pipe has what it has; and a direct read that ends early has met the end of the file, behind
    // which it cannot go on off its alignment.
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

void write_to_cache(FileOperationObject* operation) noexcept {
    while (operation->done < operation->size) {
        const ssize_t count = ::pwrite(operation->fd, operation->memory + operation->done,
                                       static_cast<std::size_t>(operation->size - operation->done),
                                       static_cast<off_t>(operation->offset + operation->done));
        if (count >= 0) {
            operation->done += count;
        } else if (errno != EINTR) {
            operation->error = errno;
            return;
        }
    }
}

Attempt attempt_write(FileOperationObject* operation) {
    if (operation->size == 0) {
        return Attempt::done;
    }
    FileEngineObject* engine = operation->engine;
    if (!operation->may_block_briefly || operation->offset < 0 ||
        operation->size > largest_write_at_once || !engine->dirty->take(operation->size)) {
        return Attempt::blocked;
    }
    const io::MonotonicTime began = io::monotonic_now();
    write_to_cache(operation);
    const io::MonotonicTime ended = io::monotonic_now();
    engine->dirty->report(began, ended);
    // Fresh pages may cost ten times what used ones do.
    engine->turn_credit -= std::max(operation->size, bytes_per_nanosecond * (ended - began));
    return Attempt::done;
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

void prepare_copy_range(FileOperationObject* operation) {
    operation->request.to_copy_range(operation->fd, operation->offset, operation->other_fd,
                                     operation->offset, static_cast<std::size_t>(operation->size));
}

Attempt attempt_close(FileOperationObject* operation) {
    // Nothing was written: there is nothing that closing could have to wait for.
    if (!operation->may_block_briefly || is_in_use(operation->engine, operation->fd)) {
        return Attempt::blocked;
    }
    if (::close(operation->fd) != 0 && errno != EINTR) {
        operation->error = errno;
    }
    operation->engine->turn_credit -= cost_of_call;
    return Attempt::done;
}

} // namespace

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

const FileCall copy_range_call = {
    .name = "copy_range",
    .prepare = &prepare_copy_range,
    .value = &value_of_count,
};

} // namespace penstock::python
