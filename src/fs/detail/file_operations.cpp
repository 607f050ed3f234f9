#include <penstock/fs/detail/file_operations.hpp>

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/fs/file.hpp>
#include <penstock/io/files/cached_read.hpp>

namespace penstock::fs::detail {

namespace {

/// A path with a zero byte cannot be passed to the kernel.
std::error_code check(std::string_view path) noexcept {
    return path.find('\0') == std::string_view::npos
               ? std::error_code()
               : std::make_error_code(std::errc::invalid_argument);
}

/// A read from the page cache consumes a unit of budget for each so many bytes.
constexpr std::size_t cached_bytes_per_operation = std::size_t{16} * 1024;

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
    if (!cached_ || into_.size() > io::largest_cached_read) {
        return false;
    }
    const io::CachedRead read =
        io::read_from_cache(file_.get(), into_.data(), into_.size(), offset_, extent_);
    done_ = read.count;
    context().loop().charge_budget(done_ / cached_bytes_per_operation);
    return read.complete && read.error == 0; // the engine reports an error
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

/// On close, ext4 writes back a large file that was truncated before. io_uring would do that on the
/// submitting thread: it punts a close only for files with a `flush` operation.
bool close_may_block(int fd) noexcept {
    constexpr off_t large = off_t{1} << 20;
    const int flags = ::fcntl(fd, F_GETFL);
    struct stat status{};
    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && ::fstat(fd, &status) == 0 &&
           status.st_size > large;
}

/// Closes on a worker thread. If the request never starts, the destructor closes.
class SlowCloseOperation final : public FileSystemOperation<SlowCloseOperation, void> {
public:
    explicit SlowCloseOperation(OwnedDescriptor descriptor) noexcept
        : descriptor_(std::move(descriptor)) {
        ignore_cancellation();
    }
    static void describe(io::FileOperation& request) noexcept { request.to_call(&run); }

private:
    static std::int64_t run(io::FileOperation& request) noexcept {
        const int closed = ::close(derived_of(request).descriptor_.release());
        // The descriptor is closed also after an error (close(2), NOTES).
        return closed == 0 || errno == EINTR ? 0 : -errno;
    }

    OwnedDescriptor descriptor_;
};

} // namespace

Task<Result<>> close_file(SharedDescriptor file) {
    if (const Result<> owned = co_await file.sole_owner(); !owned) {
        co_return owned;
    }
    if (close_may_block(file.get())) {
        co_return co_await SlowCloseOperation(file.take());
    }
    co_return co_await CloseOperation(file.take());
}

} // namespace penstock::fs::detail
