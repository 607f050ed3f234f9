#include <penstock/io/files/read_status.hpp>

#include <cerrno>
#include <cstdint>

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace penstock::io {

namespace {

/// The flags that fstatat(2) knows.
constexpr int plain_flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH;

statx_timestamp time_of(const timespec& time) noexcept {
    statx_timestamp stamp{};
    stamp.tv_sec = time.tv_sec;
    stamp.tv_nsec = static_cast<std::uint32_t>(time.tv_nsec);
    return stamp;
}

void convert(const struct stat& from, struct statx& to) noexcept {
    to = {};
    to.stx_mask = STATX_BASIC_STATS;
    to.stx_blksize = static_cast<std::uint32_t>(from.st_blksize);
    to.stx_nlink = static_cast<std::uint32_t>(from.st_nlink);
    to.stx_uid = from.st_uid;
    to.stx_gid = from.st_gid;
    to.stx_mode = static_cast<std::uint16_t>(from.st_mode);
    to.stx_ino = from.st_ino;
    to.stx_size = static_cast<std::uint64_t>(from.st_size);
    to.stx_blocks = static_cast<std::uint64_t>(from.st_blocks);
    to.stx_atime = time_of(from.st_atim);
    to.stx_ctime = time_of(from.st_ctim);
    to.stx_mtime = time_of(from.st_mtim);
    to.stx_rdev_major = major(from.st_rdev);
    to.stx_rdev_minor = minor(from.st_rdev);
    to.stx_dev_major = major(from.st_dev);
    to.stx_dev_minor = minor(from.st_dev);
}

} // namespace

// The system call itself: glibc's statx() hides ENOSYS behind an emulation that rejects newer flags
// and masks with EINVAL.
int read_status(int directory, const char* path, int at_flags, unsigned mask,
                struct statx& status) noexcept {
    const long result = ::syscall(SYS_statx, directory, path, at_flags, mask, &status);
    if (result == 0 || (errno != EPERM && errno != ENOSYS)) {
        return static_cast<int>(result);
    }
    struct stat plain{};
    if (::fstatat(directory, path, &plain, at_flags & plain_flags) != 0) {
        return -1;
    }
    convert(plain, status);
    return 0;
}

int file_type(int fd) noexcept {
    struct statx status{};
    const int found = read_status(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, status);
    return found == 0 ? status.stx_mode & S_IFMT : -1;
}

} // namespace penstock::io
