#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <sys/stat.h>

#include <penstock/detail/io/file_system_operation.hpp>
#include <penstock/detail/io/shared_descriptor.hpp>
#include <penstock/fs/open_options.hpp>
#include <penstock/fs/status.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/task/task.hpp>

namespace penstock::fs {

class File;

namespace detail {

using penstock::detail::FileSystemOperation;
using penstock::detail::SharedDescriptor;

/// Offsets have 63 bits (off_t). Returns `invalid_argument` for a larger one.
[[nodiscard]] inline std::error_code check_offset(std::uint64_t offset) noexcept {
    return std::in_range<std::int64_t>(offset) ? std::error_code()
                                               : std::make_error_code(std::errc::invalid_argument);
}

class OpenOperation final : public FileSystemOperation<OpenOperation, File> {
public:
    OpenOperation(std::string_view path, const OpenOptions& options);
    void describe(io::FileOperation& request) const noexcept;
    /// Throws `std::bad_alloc`. The file is closed then.
    [[nodiscard]] static File result(std::int64_t answer);

private:
    std::string path_;
    OpenOptions options_;
};

/// Reads from the page cache on the loop's thread if `cached`, which `io::supports_cached_reads`
/// determines. Only a read that needs a device goes to the engine.
class ReadOperation final : public FileSystemOperation<ReadOperation, std::size_t> {
public:
    /// At the file's position.
    ReadOperation(SharedDescriptor file, bool cached, MutableBytes into) noexcept
        : file_(std::move(file)), into_(into), offset_(io::FileOperation::current_position),
          extent_(io::FileOperation::Extent::once), cached_(cached) {}
    ReadOperation(SharedDescriptor file, bool cached, MutableBytes into,
                  std::uint64_t offset) noexcept
        : FileSystemOperation(check_offset(offset)), file_(std::move(file)), into_(into),
          offset_(static_cast<std::int64_t>(offset)), extent_(io::FileOperation::Extent::whole),
          cached_(cached) {}

    [[nodiscard]] bool try_now() noexcept;
    void describe(io::FileOperation& request) const noexcept;
    [[nodiscard]] std::size_t result(std::int64_t answer) const noexcept {
        return done_ + static_cast<std::size_t>(answer);
    }

private:
    SharedDescriptor file_;
    MutableBytes into_;
    std::int64_t offset_;
    std::size_t done_ = 0; ///< the bytes of `into_` that `try_now` has read
    io::FileOperation::Extent extent_;
    bool cached_;
};

class WriteOperation final : public FileSystemOperation<WriteOperation, void> {
public:
    /// At the file's position.
    WriteOperation(SharedDescriptor file, Bytes from) noexcept
        : file_(std::move(file)), from_(from), offset_(io::FileOperation::current_position) {}
    WriteOperation(SharedDescriptor file, Bytes from, std::uint64_t offset) noexcept
        : FileSystemOperation(check_offset(offset)), file_(std::move(file)), from_(from),
          offset_(static_cast<std::int64_t>(offset)) {}
    void describe(io::FileOperation& request) const noexcept {
        request.to_write(file_.get(), from_.data(), from_.size(), offset_);
    }

private:
    SharedDescriptor file_;
    Bytes from_;
    std::int64_t offset_;
};

class StatusOperation final : public FileSystemOperation<StatusOperation, Status> {
public:
    /// The status of an open file.
    explicit StatusOperation(SharedDescriptor file) noexcept;
    StatusOperation(std::string_view path, bool follow);
    void describe(io::FileOperation& request) noexcept;
    [[nodiscard]] Status result(std::int64_t /*answer*/) const noexcept {
        return Status::from(native_);
    }

private:
    SharedDescriptor file_;
    std::string path_;
    struct statx native_{};
    int flags_;
};

/// Operations on a descriptor with up to two numbers and no result.
class DescriptorOperation final : public FileSystemOperation<DescriptorOperation, void> {
public:
    enum class What : unsigned char { sync, sync_data, truncate, allocate };

    DescriptorOperation(What what, SharedDescriptor file, std::uint64_t first = 0,
                        std::uint64_t second = 0) noexcept
        : FileSystemOperation(check_offset(std::max(first, second))), file_(std::move(file)),
          first_(static_cast<std::int64_t>(first)), second_(static_cast<std::int64_t>(second)),
          what_(what) {}
    void describe(io::FileOperation& request) const noexcept;

private:
    SharedDescriptor file_;
    std::int64_t first_;
    std::int64_t second_;
    What what_;
};

/// Owns the descriptor until the engine takes it. An operation that is never awaited closes it too.
class CloseOperation final : public FileSystemOperation<CloseOperation, void> {
public:
    explicit CloseOperation(OwnedDescriptor descriptor) noexcept
        : descriptor_(std::move(descriptor)) {
        ignore_cancellation();
    }
    void describe(io::FileOperation& request) noexcept { request.to_close(descriptor_.release()); }

private:
    OwnedDescriptor descriptor_;
};

/// Waits until no operation uses the file, and closes it.
[[nodiscard]] Task<Result<>> close_file(SharedDescriptor file);

} // namespace detail
} // namespace penstock::fs
