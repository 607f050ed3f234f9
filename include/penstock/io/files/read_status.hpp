#pragma once

#include <sys/stat.h>

namespace penstock::io {

/// statx(2), or fstatat(2) where a sandbox or an old kernel refuses the call (EPERM, ENOSYS):
/// `status` then has no creation time and no alignment for O_DIRECT, and its mask says so. Returns
/// 0, or -1 with errno set.
int read_status(int directory, const char* path, int at_flags, unsigned mask,
                struct statx& status) noexcept;

/// The type of an open file, the S_IFMT bits of its mode: 0 for objects of the kernel such as
/// eventfds, -1 if it cannot be told. A loop's thread may call it: unlike fstat(2) it asks no file
/// server, and does not make NFS write cached data to one (AT_STATX_DONT_SYNC).
[[nodiscard]] int file_type(int fd) noexcept;

} // namespace penstock::io
