// Copies of files, inside the kernel where possible.

#include <penstock/fs/file.hpp>
#include <penstock/fs/paths.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "fs/replacement.hpp"

namespace penstock::fs {

namespace {

// So that a cancellation takes effect.
constexpr std::uint64_t largest_piece = std::uint64_t{64} << 20;
constexpr std::size_t buffer_size = std::size_t{256} * 1024;

bool is_copy_unsupported(const std::error_code& error) noexcept {
    return error == std::errc::operation_not_supported || error == std::errc::cross_device_link ||
           error == std::errc::invalid_argument || error == std::errc::function_not_supported ||
           error == std::errc::inappropriate_io_control_operation ||
           error == std::errc::operation_not_permitted; // a sandbox
}

/// copy_file_range(2) at one offset of both files, or FICLONE.
class KernelCopyOperation final
    : public penstock::detail::FileSystemOperation<KernelCopyOperation, std::uint64_t> {
public:
    /// Shares all blocks.
    KernelCopyOperation(const File& from, const File& to) noexcept
        : from_(from.native_handle()), to_(to.native_handle()) {}
    KernelCopyOperation(const File& from, const File& to, std::uint64_t offset,
                        std::uint64_t size) noexcept
        : from_(from.native_handle()), to_(to.native_handle()),
          offset_(static_cast<std::int64_t>(offset)), size_(size) {}

    void describe(io::FileOperation& request) const noexcept {
        if (size_ == 0) {
            request.to_clone(from_, to_);
        } else {
            request.to_copy_range(from_, offset_, to_, offset_, size_);
        }
    }
    [[nodiscard]] static std::uint64_t result(std::int64_t answer) noexcept {
        return static_cast<std::uint64_t>(answer);
    }

private:
    int from_;
    int to_;
    std::int64_t offset_ = 0;
    std::size_t size_ = 0;
};

struct Span {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

/// The first data of a file at or after a position (lseek(2), SEEK_DATA). An empty span at its end
/// if there is none.
class NextDataOperation final
    : public penstock::detail::FileSystemOperation<NextDataOperation, Span> {
public:
    NextDataOperation(const File& file, std::uint64_t position, std::uint64_t size) noexcept
        : fd_(file.native_handle()), position_(static_cast<off_t>(position)), size_(size) {}

    static void describe(io::FileOperation& request) noexcept { request.to_call(&run); }
    [[nodiscard]] Span result(std::int64_t /*answer*/) const noexcept { return found_; }

private:
    static std::int64_t run(io::FileOperation& request) noexcept {
        NextDataOperation& self = derived_of(request);
        const off_t begin = ::lseek(self.fd_, self.position_, SEEK_DATA);
        if (begin < 0 && errno == ENXIO) { // only a hole is left
            self.found_ = {.begin = self.size_, .end = self.size_};
            return 0;
        }
        const off_t end = begin < 0 ? begin : ::lseek(self.fd_, begin, SEEK_HOLE);
        if (end < 0) {
            return -errno;
        }
        self.found_ = {.begin = static_cast<std::uint64_t>(begin),
                       .end = static_cast<std::uint64_t>(end)};
        return 0;
    }

    int fd_;
    off_t position_;
    std::uint64_t size_;
    Span found_;
};

/// One copy: clones the blocks if the file system can, else lets the kernel copy, else copies
/// through a buffer. Each way is left for good when the kernel refuses it.
///
/// Refers to both files, which the caller keeps open; nobody else may write the target meanwhile.
/// After an error or a cancellation the target has a part of the data; `replace_file` removes it.
///
/// Cost: one call for a clone; else a call for each 64 MiB, between which a cancellation takes
/// effect; through the buffer, two calls for each 256 KiB. Holes are skipped, and stay holes.
class Copying {
public:
    Copying(File& from, File& to, const Status& source) noexcept
        : from_(from), to_(to), size_(source.size), sparse_(source.allocated < source.size) {}

    /// Returns the number of bytes, holes included.
    [[nodiscard]] Task<Result<std::uint64_t>> run() {
        if (size_ == 0) { // files in /proc also report this
            co_return co_await copy_to_end();
        }
        const Result<std::uint64_t> cloned = co_await KernelCopyOperation(from_, to_);
        if (cloned) {
            co_return size_;
        }
        if (!is_copy_unsupported(cloned.error())) {
            co_return failure(cloned.error());
        }
        if (sparse_) {
            co_return co_await copy_data();
        }
        co_return co_await copy_span({.begin = 0, .end = size_});
    }

private:
    [[nodiscard]] Task<Result<std::uint64_t>> copy_to_end() {
        for (std::uint64_t position = 0;;) {
            const Result<std::uint64_t> count = co_await through_buffer(position, buffer_size);
            if (!count || *count == 0) {
                co_return count ? Result<std::uint64_t>(position) : count;
            }
            position += *count;
        }
    }

    /// Copies what is between the holes.
    [[nodiscard]] Task<Result<std::uint64_t>> copy_data() {
        std::uint64_t position = 0;
        while (position < size_) {
            const Result<Span> data = co_await NextDataOperation(from_, position, size_);
            if (!data) {
                co_return failure(data.error());
            }
            const Result<std::uint64_t> reached = co_await copy_span(*data);
            if (!reached) {
                co_return reached;
            }
            position = *reached;
            if (position < data->end || data->begin == data->end) { // truncated, or no data left
                break;
            }
        }
        if (const Result<> extended = co_await to_.truncate(position); !extended) {
            co_return failure(extended.error());
        }
        co_return position;
    }

    /// Returns the end, which is earlier than asked if the source was truncated meanwhile.
    [[nodiscard]] Task<Result<std::uint64_t>> copy_span(Span span) {
        std::uint64_t position = span.begin;
        while (position < span.end) {
            const Result<std::uint64_t> count = co_await copy_piece(position, span.end - position);
            if (!count) {
                co_return count;
            }
            if (*count == 0) {
                break;
            }
            position += *count;
        }
        co_return position;
    }

    [[nodiscard]] Task<Result<std::uint64_t>> copy_piece(std::uint64_t position,
                                                         std::uint64_t left) {
        if (by_kernel_) {
            const Result<std::uint64_t> count =
                co_await KernelCopyOperation(from_, to_, position, std::min(left, largest_piece));
            if (count && *count > 0) {
                co_return count;
            }
            if (!count && !is_copy_unsupported(count.error())) {
                co_return count;
            }
            // 0 is the end, or a file system whose files the kernel cannot copy: reading shows
            // which.
            by_kernel_ = count.has_value();
        }
        co_return co_await through_buffer(
            position, static_cast<std::size_t>(std::min<std::uint64_t>(left, buffer_size)));
    }

    [[nodiscard]] Task<Result<std::uint64_t>> through_buffer(std::uint64_t position,
                                                             std::size_t most) {
        buffer_.resize(buffer_size);
        const Result<std::size_t> count =
            co_await from_.read_at(position, MutableBytes(buffer_.data(), most));
        if (!count || *count == 0) {
            co_return count ? Result<std::uint64_t>(0) : failure(count.error());
        }
        if (const Result<> written =
                co_await to_.write_all_at(position, Bytes(buffer_.data(), *count));
            !written) {
            co_return failure(written.error());
        }
        co_return *count;
    }

    File& from_;
    File& to_;
    std::uint64_t size_;
    bool sparse_;
    bool by_kernel_ = true;
    std::vector<std::byte> buffer_;
};

/// Why a file cannot be the source of a copy.
std::error_code refusal_of(const Status& source) noexcept {
    if (source.is_regular()) {
        return {};
    }
    return std::make_error_code(source.is_directory() ? std::errc::is_a_directory
                                                      : std::errc::invalid_argument);
}

} // namespace

Task<Result<std::uint64_t>> copy_file(std::string from, std::string to, CopyFileOptions options) {
    // Before it is opened: the open of a FIFO would wait for a writer.
    Result<Status> source = co_await status(from);
    if (!source) {
        co_return failure(source.error());
    }
    if (const std::error_code refused = refusal_of(*source)) {
        co_return failure(refused);
    }
    Result<File> opened = co_await File::open(from);
    if (!opened) {
        co_return failure(opened.error());
    }
    source = co_await opened->status();
    if (!source) {
        co_return failure(source.error());
    }
    if (const std::error_code refused = refusal_of(*source)) {
        co_return failure(refused);
    }
    const Result<Status> old = co_await status(to);
    if (old && old->device == source->device && old->inode == source->inode) {
        co_return failure(std::errc::file_exists);
    }
    std::uint64_t copied = 0;
    const Result<> done = co_await detail::replace_file(
        std::move(to), {.permissions = 0600, .keep_permissions = false, .sync = options.sync},
        [&](File& target) -> Task<Result<>> {
            if (::fchmod(target.native_handle(), source->permissions & detail::kept_permissions) !=
                0) {
                co_return last_failure();
            }
            Copying copying(*opened, target, *source);
            const Result<std::uint64_t> count = co_await copying.run();
            if (!count) {
                co_return failure(count.error());
            }
            copied = *count;
            co_return Result<>();
        });
    if (!done) {
        co_return failure(done.error());
    }
    co_return copied;
}

} // namespace penstock::fs
