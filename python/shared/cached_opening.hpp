#pragma once

#include <cerrno>
#include <cstdint>

#include <fcntl.h>
#include <sys/stat.h>

#include <penstock/io/files/local_status.hpp>
#include <penstock/io/files/open_from_cache.hpp>
#include <penstock/io/files/read_status.hpp>
#include <penstock/owned_descriptor.hpp>

namespace penstock::python {

/// The result of `open_regular_from_cache`.
struct CachedFile {
    int fd; ///< open and nonblocking, or a negated errno; EAGAIN as with `io::open_from_cache`
    std::int64_t size = 0;       ///< the file's size at opening
    std::int64_t block_size = 0; ///< preferred by the file system
    bool regular = true;         ///< false if it is known to be something else
};

/// Reads the status of an open file if that never waits (`io::is_local`). False otherwise, and for
/// every error.
inline bool read_local_status(int fd, struct statx& status) noexcept {
    return io::read_status(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, io::local_status_mask,
                           status) == 0 &&
           io::is_local(status);
}

/// Whether a server or a daemon may have to answer before a file is closed, even if nothing was
/// written.
inline bool is_remote(int fd) noexcept {
    struct statx status = {};
    return io::read_status(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, io::local_status_mask,
                           status) == 0 &&
           io::storage_of(status) == io::Storage::remote;
}

/// Opens a path for reading if its name lookup needs no device and it is a regular file of a local
/// file system: elsewhere open(2) asks a server or a daemon, and fstat(2) too.
///
/// The type of the file is determined before it is opened: opening a pipe waits for its other end,
/// and opening a device has effects.
inline CachedFile open_regular_from_cache(const char* path, int flags) noexcept {
    const int follow = flags & O_NOFOLLOW;
    const OwnedDescriptor found(io::open_from_cache(path, O_PATH | O_CLOEXEC | follow));
    if (found.get() < 0) {
        return {.fd = found.get()};
    }
    struct statx status = {};
    const bool local = read_local_status(found.get(), status);
    if (!S_ISREG(status.stx_mode)) {
        return {.fd = -EAGAIN, .regular = false};
    }
    if (!local) {
        return {.fd = -EAGAIN};
    }
    // O_NONBLOCK: otherwise open(2) waits for the holder of a lease (fcntl(2)).
    return {.fd = io::open_from_cache(path, flags | O_NONBLOCK | O_CLOEXEC),
            .size = static_cast<std::int64_t>(status.stx_size),
            .block_size = static_cast<std::int64_t>(status.stx_blksize)};
}

} // namespace penstock::python
