#include <penstock/fs/file.hpp>

#include <unistd.h>

namespace penstock::fs {

namespace {

Result<std::uint64_t> move_to(int fd, std::int64_t offset, int whence) noexcept {
    if (fd < 0) {
        return failure(std::errc::bad_file_descriptor);
    }
    const off_t position = ::lseek(fd, offset, whence);
    if (position < 0) {
        return last_failure();
    }
    return static_cast<std::uint64_t>(position);
}

} // namespace

Result<std::uint64_t> File::seek(std::uint64_t offset) noexcept {
    return move_to(native_handle(), static_cast<std::int64_t>(offset), SEEK_SET);
}

Result<std::uint64_t> File::seek_to_end() noexcept {
    return move_to(native_handle(), 0, SEEK_END);
}

Result<std::uint64_t> File::position() const noexcept {
    return move_to(native_handle(), 0, SEEK_CUR);
}

} // namespace penstock::fs
