#pragma once

#include <cerrno>
#include <cstdint>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace penstock::io {

/// openat2(2): opens a path if its name lookup needs no device. A negated errno otherwise; EAGAIN
/// when a device is needed or this kernel cannot tell.
inline int open_from_cache(const char* path, int flags, int directory = AT_FDCWD) noexcept {
    open_how how = {};
    how.flags = static_cast<std::uint64_t>(flags);
    how.resolve = RESOLVE_CACHED;
    const auto fd = static_cast<int>(::syscall(SYS_openat2, directory, path, &how, sizeof how));
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

} // namespace penstock::io
