#pragma once

#include <sys/stat.h>

namespace penstock::io {

/// What `is_local` needs in a status: the mask for statx(2). The second flag is
/// STATX_MNT_ID_UNIQUE, of Linux 6.8; other kernels ignore it.
inline constexpr unsigned local_status_mask = STATX_BASIC_STATS | 0x4000U;

/// Whether the kernel answers for the file of `status` from its own memory: the status is the one
/// that fstat(2) would return, although AT_STATX_DONT_SYNC was used, and fstat(2) would not wait.
///
/// True for file systems on a block device, and for tmpfs, ramfs, devtmpfs and overlay. False for
/// those of a server or a daemon (NFS, CIFS, FUSE, 9p), and for whatever is not known, such as
/// overlay on Linux before 6.8. Cluster file systems on shared block devices, which ask other
/// machines in spite of the flag, are not told from others.
///
/// Thread safe. Reads /proc/self/mountinfo for a mount that the thread has not seen yet.
[[nodiscard]] bool is_local(const struct statx& status) noexcept;

} // namespace penstock::io
