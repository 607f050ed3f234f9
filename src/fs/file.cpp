#include <penstock/fs/file.hpp>

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace penstock::fs {

int OpenOptions::flags() const noexcept {
    int flags = write || append ? (read ? O_RDWR : O_WRONLY) : O_RDONLY;
    flags |= append ? O_APPEND : 0;
    flags |= create || create_new ? O_CREAT : 0;
    flags |= create_new ? O_EXCL : 0;
    flags |= truncate ? O_TRUNC : 0;
    flags |= direct ? O_DIRECT : 0;
    return flags | O_CLOEXEC;
}

namespace detail {

namespace {

/// A path that C cannot take is no path of any file.
std::error_code check(std::string_view path) noexcept {
    return path.find('\0') == std::string_view::npos
               ? std::error_code()
               : std::make_error_code(std::errc::invalid_argument);
}

/// A read copies so much of the page cache on the loop's thread, a twentieth of a millisecond; the engine
/// does the rest. And of the loop's budget it takes one operation for each so many bytes.
constexpr std::size_t cached_at_once = std::size_t{256} * 1024;
constexpr std::size_t cached_in_an_operation = std::size_t{16} * 1024;

} // namespace

OpenOperation::OpenOperation(std::string_view path, const OpenOptions& options)
    : FileSystemOperation(check(path)), path_(path), options_(options) {}

void OpenOperation::describe(io::FileOperation& request) const noexcept {
    request.to_open(path_.c_str(), options_.flags(), options_.permissions);
}

File OpenOperation::result(std::int64_t answer) {
    return File(OwnedDescriptor(static_cast<int>(answer)));
}

bool ReadOperation::try_now() noexcept {
    const std::size_t most = std::min(into_.size(), cached_at_once);
    while (done_ < most) {
        const iovec part{.iov_base = into_.data() + done_, .iov_len = most - done_};
        const std::int64_t offset =
            offset_ < 0 ? offset_ : offset_ + static_cast<std::int64_t>(done_);
        const ssize_t count = ::preadv2(file_.get(), &part, 1, offset, RWF_NOWAIT);
        if (count < 0) { // EAGAIN: a device must be waited for; anything else the engine will tell
            return false;
        }
        done_ += static_cast<std::size_t>(count);
        if (count == 0 || extent_ == io::FileOperation::Extent::once) {
            context().loop().charge(done_ / cached_in_an_operation);
            return true;
        }
    }
    context().loop().charge(done_ / cached_in_an_operation);
    return done_ == into_.size();
}

void ReadOperation::describe(io::FileOperation& request) const noexcept {
    const std::int64_t offset = offset_ < 0 ? offset_ : offset_ + static_cast<std::int64_t>(done_);
    request.to_read(file_.get(), into_.data() + done_, into_.size() - done_, offset, extent_);
}

StatusOperation::StatusOperation(SharedDescriptor file) noexcept
    : file_(std::move(file)), flags_(AT_EMPTY_PATH) {}

StatusOperation::StatusOperation(std::string_view path, bool follow)
    : FileSystemOperation(check(path)), path_(path), flags_(follow ? 0 : AT_SYMLINK_NOFOLLOW) {}

void StatusOperation::describe(io::FileOperation& request) noexcept {
    const bool of_path = (flags_ & AT_EMPTY_PATH) == 0;
    request.to_stat(path_.c_str(), native_, flags_, STATX_BASIC_STATS | STATX_BTIME,
                    of_path ? AT_FDCWD : file_.get());
}

void DescriptorOperation::describe(io::FileOperation& request) const noexcept {
    switch (what_) {
    case What::sync:
        return request.to_fsync(file_.get());
    case What::sync_data:
        return request.to_fdatasync(file_.get());
    case What::truncate:
        return request.to_truncate(file_.get(), first_);
    case What::allocate:
        return request.to_allocate(file_.get(), 0, first_, second_);
    }
}

namespace {

/// ext4 writes back a large file that was emptied before when it is closed. io_uring would do so on the
/// thread that submits: it gives only files with a `flush` of their own to another one.
bool closing_may_take_long(int fd) noexcept {
    constexpr off_t large = off_t{1} << 20;
    const int flags = ::fcntl(fd, F_GETFL);
    struct stat status{};
    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && ::fstat(fd, &status) == 0 &&
           status.st_size > large;
}

/// On a worker thread; if it does not come to that, where the operation ends.
class SlowCloseOperation final : public FileSystemOperation<SlowCloseOperation, void> {
public:
    explicit SlowCloseOperation(OwnedDescriptor descriptor) noexcept
        : descriptor_(std::move(descriptor)) {
        run_cancelled();
    }
    static void describe(io::FileOperation& request) noexcept { request.to_call(&run); }

private:
    static std::int64_t run(io::FileOperation& request) noexcept {
        const int closed = ::close(derived_of(request).descriptor_.release());
        return closed == 0 || errno == EINTR ? 0
                                             : -errno; // the descriptor is gone (close(2), NOTES)
    }

    OwnedDescriptor descriptor_;
};

} // namespace

Task<Result<>> close_file(SharedDescriptor file) {
    if (const Result<> alone = co_await file.alone(); !alone) {
        co_return alone;
    }
    if (closing_may_take_long(file.get())) {
        co_return co_await SlowCloseOperation(file.take());
    }
    co_return co_await CloseOperation(file.take());
}

} // namespace detail

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
