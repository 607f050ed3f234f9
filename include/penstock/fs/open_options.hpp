#pragma once

#include <sys/types.h>

namespace penstock::fs {

/// How a file is opened (open(2)).
struct OpenOptions {
    bool read = true;
    bool write = false;
    bool append = false;     ///< every write goes to the current end
    bool create = false;     ///< if it does not exist
    bool create_new = false; ///< `file_exists` if it exists
    bool truncate = false;   ///< to a size of 0
    /// Bypasses the page cache (O_DIRECT). Buffers, offsets and sizes must be aligned.
    bool direct = false;
    mode_t permissions = 0666; ///< of a new file, before the umask

    [[nodiscard]] static OpenOptions reading() noexcept { return {}; }

    /// Creates the file, or empties it.
    [[nodiscard]] static OpenOptions writing() noexcept {
        return {.read = false, .write = true, .create = true, .truncate = true};
    }

    [[nodiscard]] static OpenOptions appending() noexcept {
        return {.read = false, .write = true, .append = true, .create = true};
    }

    [[nodiscard]] int flags() const noexcept;
};

} // namespace penstock::fs
