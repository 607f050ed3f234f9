#include <penstock/fs/status.hpp>

#include <sys/sysmacros.h>

namespace penstock::fs {

namespace {

Status::Time time_of(const statx_timestamp& stamp) noexcept {
    return Status::Time(std::chrono::seconds(stamp.tv_sec) +
                        std::chrono::nanoseconds(stamp.tv_nsec));
}

} // namespace

FileType file_type(mode_t mode) noexcept {
    switch (mode & S_IFMT) {
    case S_IFREG:
        return FileType::regular;
    case S_IFDIR:
        return FileType::directory;
    case S_IFLNK:
        return FileType::symbolic_link;
    case S_IFSOCK:
        return FileType::socket;
    case S_IFIFO:
        return FileType::pipe;
    case S_IFBLK:
        return FileType::block_device;
    case S_IFCHR:
        return FileType::character_device;
    default:
        return FileType::unknown;
    }
}

Status Status::from(const struct statx& native) noexcept {
    // the unit of stx_blocks, independent of the file system's block size
    constexpr std::uint64_t block = 512;
    return {.type = file_type(native.stx_mode),
            .permissions = static_cast<mode_t>(native.stx_mode & 07777U),
            .size = native.stx_size,
            .allocated = native.stx_blocks * block,
            .inode = native.stx_ino,
            .device = makedev(native.stx_dev_major, native.stx_dev_minor),
            .links = native.stx_nlink,
            .owner = native.stx_uid,
            .group = native.stx_gid,
            .accessed = time_of(native.stx_atime),
            .modified = time_of(native.stx_mtime),
            .changed = time_of(native.stx_ctime),
            .created = (native.stx_mask & STATX_BTIME) != 0 ? time_of(native.stx_btime) : Time()};
}

} // namespace penstock::fs
