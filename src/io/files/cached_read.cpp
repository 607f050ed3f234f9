#include <penstock/io/files/cached_read.hpp>

#include <cerrno>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include <penstock/io/files/local_status.hpp>
#include <penstock/io/files/read_status.hpp>

namespace penstock::io {

namespace {

/// A server or a daemon is not asked: it would have to answer for its file system.
bool is_in_memory(int fd) noexcept {
    struct statx status{};
    if (read_status(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, local_status_mask, status) != 0) {
        return false;
    }
    const Storage storage = storage_of(status);
    struct statfs system{};
    return storage == Storage::memory ||
           (storage == Storage::unknown && ::fstatfs(fd, &system) == 0 &&
            (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC));
}

} // namespace

CachedRead read_from_cache(int fd, void* into, std::size_t size, std::int64_t offset,
                           FileOperation::Extent extent) noexcept {
    CachedRead read;
    int flags = RWF_NOWAIT;
    while (read.count < size) {
        const iovec rest{.iov_base = static_cast<char*>(into) + read.count,
                         .iov_len = size - read.count};
        const std::int64_t position = offset == FileOperation::current_position
                                          ? offset
                                          : offset + static_cast<std::int64_t>(read.count);
        const ssize_t count = ::preadv2(fd, &rest, 1, position, flags);
        if (count >= 0) {
            read.count += static_cast<std::size_t>(count);
            if (count == 0 || extent == FileOperation::Extent::once) {
                break;
            }
        } else if (errno == EOPNOTSUPP && flags != 0 && is_in_memory(fd)) {
            flags = 0;
        } else if (errno == EAGAIN || errno == EOPNOTSUPP || errno == EPERM || errno == ENOSYS) {
            return read; // the last two: a sandbox forbids preadv2(2)
        } else if (errno != EINTR) {
            read.error = errno;
            break;
        }
    }
    read.complete = true;
    return read;
}

bool supports_cached_reads(int fd) noexcept {
    const int type = file_type(fd);
    if (type < 0 || S_ISCHR(type)) {
        return false;
    }
    const int flags = ::fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_DIRECT) == 0;
}

} // namespace penstock::io
