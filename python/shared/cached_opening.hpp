#pragma once

#include <cerrno>
#include <cstdint>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <penstock/owned_descriptor.hpp>

namespace penstock::python {

/// openat2(2): opens a path if its name lookup needs no device. A negated errno otherwise; EAGAIN
/// when a device is needed or this kernel cannot tell.
inline int open_from_cache(const char* path, int flags) noexcept {
    open_how how = {};
    how.flags = static_cast<std::uint64_t>(flags);
    how.resolve = RESOLVE_CACHED;
    const auto fd = static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how));
    if (fd >= 0) {
        return fd;
    }
    switch (const int error = errno) {
    case ENOENT:
    case ENOTDIR:
    case EACCES:
    case ELOOP:
    case ENAMETOOLONG:
    case EMFILE:
    case ENFILE:
        return -error;
    default:
        return -EAGAIN;
    }
}

/// The result of `open_regular_from_cache`.
struct CachedFile {
    int fd; ///< open and nonblocking, or a negated errno; EAGAIN as with `open_from_cache`
    std::int64_t size = 0; ///< the file's size at opening
    bool regular = true;   ///< false if it is known to be something else
};

/// Opens a path for reading if its name lookup needs no device and it is a regular file.
///
/// The type of the file is determined before it is opened: opening a pipe waits for its other end,
/// and opening a device has effects.
inline CachedFile open_regular_from_cache(const char* path, int flags) noexcept {
    const int follow = flags & O_NOFOLLOW;
    const OwnedDescriptor found(open_from_cache(path, O_PATH | O_CLOEXEC | follow));
    struct stat status = {};
    if (found.get() < 0) {
        return {.fd = found.get()};
    }
    if (::fstat(found.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return {.fd = -EAGAIN, .regular = false};
    }
    // O_NONBLOCK: otherwise open(2) waits for the holder of a lease (fcntl(2)).
    return {.fd = open_from_cache(path, flags | O_NONBLOCK | O_CLOEXEC), .size = status.st_size};
}

} // namespace penstock::python
