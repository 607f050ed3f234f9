#pragma once

#include "files/file_engine.hpp"

namespace penstock::python {

/// The result of `write_to_cache`.
struct CachedWrite {
    std::int64_t done = 0; ///< bytes written
    int error = 0;         ///< an errno if the write has failed
    bool begun = false;    ///< false: it could wait for a device; nothing was written
};

/// Writes to a regular file at `offset` through the page cache, on the loop's thread, while the
/// kernel has room for dirty pages. The file must not be open with O_DIRECT, O_SYNC or O_DSYNC.
CachedWrite write_to_cache(FileEngineObject* engine, int fd, const char* data, std::int64_t size,
                           std::int64_t offset) noexcept;

/// Makes such a file longer, or by at most 64 KiB shorter, on the loop's thread. False, without an
/// exception, if it could wait for a device or a server, or has failed: the engine must do it then.
bool truncate_at_once(FileEngineObject* engine, int fd, std::int64_t length) noexcept;

} // namespace penstock::python
