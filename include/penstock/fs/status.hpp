#pragma once

#include <chrono>
#include <cstdint>

#include <sys/stat.h>
#include <sys/types.h>

namespace penstock::fs {

enum class FileType : unsigned char {
    regular,
    directory,
    symbolic_link,
    socket,
    pipe,
    block_device,
    character_device,
    unknown,
};

/// From the type bits of a mode (inode(7)).
[[nodiscard]] FileType file_type(mode_t mode) noexcept;

/// The metadata of a file (statx(2)).
struct Status {
    using Time = std::chrono::sys_time<std::chrono::nanoseconds>;

    FileType type = FileType::unknown;
    mode_t permissions = 0;      ///< the lower twelve bits
    std::uint64_t size = 0;      ///< bytes
    std::uint64_t allocated = 0; ///< bytes on the device
    std::uint64_t inode = 0;
    std::uint64_t device = 0;
    std::uint32_t links = 0;
    uid_t owner = 0;
    gid_t group = 0;
    Time accessed{};
    Time modified{};
    Time changed{};
    Time created{}; ///< zero if the file system does not keep it

    [[nodiscard]] static Status from(const struct statx& native) noexcept;

    [[nodiscard]] bool is_regular() const noexcept { return type == FileType::regular; }
    [[nodiscard]] bool is_directory() const noexcept { return type == FileType::directory; }
};

} // namespace penstock::fs
