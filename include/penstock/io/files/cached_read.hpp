#pragma once

#include <cstddef>
#include <cstdint>

#include <penstock/io/files/file_operation.hpp>

namespace penstock::io {

/// The largest read that is tried on the loop's thread. Copying it takes less than a millisecond. A
/// larger one goes to the engine as a whole: if the file is cached only in part, copying the cached
/// part first would delay the loop and gain little.
inline constexpr std::size_t largest_cached_read = std::size_t{2} << 20;

/// The result of `read_from_cache`.
struct CachedRead {
    std::size_t count = 0; ///< bytes read; the engine reads what is left
    int error = 0;         ///< an errno if the read has failed
    bool complete = false; ///< false: the rest may have to wait for a device
};

/// Reads what the page cache has, without waiting for a device (preadv2(2) with RWF_NOWAIT). The
/// way through an engine costs ten times as much as a read of 4 KiB.
///
/// `offset` and `extent` are those of `FileOperation::to_read`. A read is complete when it has all
/// it asked for, at the end of the file, and after one call with `Extent::once`. Files in memory
/// (tmpfs, ramfs) do not support RWF_NOWAIT before Linux 6.6 and are read without it.
///
/// The caller must not pass a file for which `supports_cached_reads` is false. Thread safe.
[[nodiscard]] CachedRead read_from_cache(int fd, void* into, std::size_t size, std::int64_t offset,
                                         FileOperation::Extent extent) noexcept;

/// Whether a read of this file with RWF_NOWAIT never waits. Two kinds of file ignore the flag: a
/// terminal (its driver waits for input) and a file opened with O_DIRECT (waits for the device).
/// False for a descriptor that is not open. Takes two system calls, so a caller asks once for each
/// file, not for each read. Thread safe.
[[nodiscard]] bool supports_cached_reads(int fd) noexcept;

} // namespace penstock::io
