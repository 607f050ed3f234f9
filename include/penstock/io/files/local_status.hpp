#pragma once

#include <sys/stat.h>

namespace penstock::io {

/// What the functions below need in a status: the mask for statx(2). The second flag is
/// STATX_MNT_ID_UNIQUE, of Linux 6.8; other kernels ignore it.
inline constexpr unsigned local_status_mask = STATX_BASIC_STATS | 0x4000U;

/// Who knows what a file holds, and what its status is.
enum class Storage : unsigned char {
    unknown,
    device, ///< a block device
    memory, ///< tmpfs, ramfs, devtmpfs
    layers, ///< overlay
    remote, ///< a server or a daemon (NFS, CIFS, FUSE, 9p), which has to answer
};

/// The storage of the file of `status`, which may be from AT_STATX_DONT_SYNC.
///
/// Before Linux 6.8 it is unknown where it is not a device. Cluster file systems on shared block
/// devices, which ask other machines, and FUSE on a block device are not told from others.
///
/// Thread safe. Reads /proc/self/mountinfo for a mount that the thread has not seen yet.
[[nodiscard]] Storage storage_of(const struct statx& status) noexcept;

/// Whether the kernel answers for the file of `status` from its own memory: the status is the one
/// that fstat(2) would return, although AT_STATX_DONT_SYNC was used, and fstat(2) would not wait.
[[nodiscard]] inline bool is_local(const struct statx& status) noexcept {
    const Storage storage = storage_of(status);
    return storage != Storage::unknown && storage != Storage::remote;
}

} // namespace penstock::io
