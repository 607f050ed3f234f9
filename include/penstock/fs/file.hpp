#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <sys/stat.h>
#include <sys/types.h>

#include <penstock/bytes.hpp>
#include <penstock/detail/file_system_operation.hpp>
#include <penstock/detail/shared_descriptor.hpp>
#include <penstock/fs/status.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/result.hpp>
#include <penstock/task.hpp>

namespace penstock::fs {

class File;

/// How a file is opened (open(2)).
struct OpenOptions {
    bool read = true;
    bool write = false;
    bool append = false;     ///< every write goes to the end, wherever that is by then
    bool create = false;     ///< when it is not there
    bool create_new = false; ///< and only then: `file_exists` otherwise
    bool truncate = false;   ///< to nothing
    bool direct = false; ///< past the page cache (O_DIRECT): buffers, offsets and sizes are aligned
    mode_t permissions = 0666; ///< of a new file, less the umask

    [[nodiscard]] static OpenOptions reading() noexcept { return {}; }

    /// An empty file, whatever was there.
    [[nodiscard]] static OpenOptions writing() noexcept {
        return {.read = false, .write = true, .create = true, .truncate = true};
    }

    [[nodiscard]] static OpenOptions appending() noexcept {
        return {.read = false, .write = true, .append = true, .create = true};
    }

    [[nodiscard]] int flags() const noexcept;
};

namespace detail {

using penstock::detail::FileSystemOperation;
using penstock::detail::SharedDescriptor;

/// Offsets have 63 bits (off_t): a larger one is `invalid_argument`.
[[nodiscard]] inline std::error_code check_offset(std::uint64_t offset) noexcept {
    return std::in_range<std::int64_t>(offset) ? std::error_code()
                                               : std::make_error_code(std::errc::invalid_argument);
}

class OpenOperation final : public FileSystemOperation<OpenOperation, File> {
public:
    OpenOperation(std::string_view path, const OpenOptions& options);
    void describe(io::FileOperation& request) const noexcept;
    /// Throws `std::bad_alloc`; the file is closed then.
    [[nodiscard]] static File result(std::int64_t answer);

private:
    std::string path_;
    OpenOptions options_;
};

/// Reads what the page cache has without another thread or the ring; waits for a device in the engine.
class ReadOperation final : public FileSystemOperation<ReadOperation, std::size_t> {
public:
    /// From the file's position.
    ReadOperation(SharedDescriptor file, MutableBytes into) noexcept
        : file_(std::move(file)), into_(into), offset_(io::FileOperation::current_position),
          extent_(io::FileOperation::Extent::once) {}
    ReadOperation(SharedDescriptor file, MutableBytes into, std::uint64_t offset) noexcept
        : FileSystemOperation(check_offset(offset)), file_(std::move(file)), into_(into),
          offset_(static_cast<std::int64_t>(offset)), extent_(io::FileOperation::Extent::whole) {}

    [[nodiscard]] bool try_now() noexcept;
    void describe(io::FileOperation& request) const noexcept;
    [[nodiscard]] std::size_t result(std::int64_t answer) const noexcept {
        return done_ + static_cast<std::size_t>(answer);
    }

private:
    SharedDescriptor file_;
    MutableBytes into_;
    std::int64_t offset_;
    std::size_t done_ = 0; ///< of `into_`, by `try_now`
    io::FileOperation::Extent extent_;
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
    /// Of an open file.
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

/// What takes a descriptor and a number or two, and yields nothing.
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

/// Owns the descriptor until the engine has it: one that is never awaited closes it too.
class CloseOperation final : public FileSystemOperation<CloseOperation, void> {
public:
    explicit CloseOperation(OwnedDescriptor descriptor) noexcept
        : descriptor_(std::move(descriptor)) {
        run_cancelled();
    }
    void describe(io::FileOperation& request) noexcept { request.to_close(descriptor_.release()); }

private:
    OwnedDescriptor descriptor_;
};

/// Waits until no operation has the file any more, and closes it.
[[nodiscard]] Task<Result<>> close_file(SharedDescriptor file);

} // namespace detail

/// An open file. Its reads and writes run on the loop's file engine (io_uring, or worker threads) and
/// do not hold up the loop. What the page cache has is read at once, up to 256 KiB of it.
///
///     Result<fs::File> file = co_await fs::File::open("measurements.csv");
///
/// `read` and `write_all` move the file's position, so one task at a time may use them; `read_at` and
/// `write_all_at` do not touch it, and any number may be in flight. A cancelled operation ends when the
/// kernel has let go of its buffer: with `operation_canceled`, or with its own result when that was
/// faster.
///
/// A file stays open until its operations have ended, also when this object is closed, assigned to or
/// destroyed meanwhile: until then its number is the kernel's to use, and is no other file's.
///
/// Not bound to a loop. Not thread safe.
class File {
public:
    using Open = detail::OpenOperation;
    using Read = detail::ReadOperation;
    using Write = detail::WriteOperation;
    using Change = detail::DescriptorOperation;

    /// A closed file.
    File() = default;
    /// Takes a descriptor over. Throws `std::bad_alloc`; it is closed then.
    explicit File(OwnedDescriptor descriptor) : descriptor_(std::move(descriptor)) {}

    File(File&&) noexcept = default;
    File& operator=(File&&) noexcept = default;
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File() = default;

    /// Errors: open(2)'s, such as `no_such_file_or_directory`, `permission_denied`, `file_exists`,
    /// `is_a_directory`; `invalid_argument` for a path with a zero byte.
    [[nodiscard]] static Open open(std::string_view path, const OpenOptions& options) {
        return {path, options};
    }
    [[nodiscard]] static Open open(std::string_view path) { return open(path, OpenOptions()); }

    /// Yields how many bytes it read, at most `into.size()` and perhaps fewer than there are; 0 at the end
    /// of the file.
    [[nodiscard]] Read read(MutableBytes into) noexcept { return {descriptor_, into}; }

    /// From an offset; less than `into.size()` at the end of the file only.
    [[nodiscard]] Read read_at(std::uint64_t offset, MutableBytes into) noexcept {
        return {descriptor_, into, offset};
    }

    /// Writes all of `from`. After an error or a cancellation a part may have been written. A FIFO without
    /// a reader is `broken_pipe`, and no SIGPIPE.
    [[nodiscard]] Write write_all(Bytes from) noexcept { return {descriptor_, from}; }
    [[nodiscard]] Write write_all_at(std::uint64_t offset, Bytes from) noexcept {
        return {descriptor_, from, offset};
    }

    /// Where the next `read` or `write_all` begins. Errors: lseek(2)'s.
    Result<std::uint64_t> seek(std::uint64_t offset) noexcept;
    Result<std::uint64_t> seek_to_end() noexcept;
    [[nodiscard]] Result<std::uint64_t> position() const noexcept;

    /// Returns when all that was written is on the device (fsync(2)); `sync_data` leaves out what is
    /// not needed to read it again (fdatasync(2)). After an error nobody knows what is on the device:
    /// the kernel may not report it again.
    [[nodiscard]] Change sync() noexcept { return {Change::What::sync, descriptor_}; }
    [[nodiscard]] Change sync_data() noexcept { return {Change::What::sync_data, descriptor_}; }

    /// Cuts the file, or makes it longer with zeros.
    [[nodiscard]] Change truncate(std::uint64_t size) noexcept {
        return {Change::What::truncate, descriptor_, size};
    }

    /// Reserves room on the device, and makes the file as long (posix_fallocate(3)).
    [[nodiscard]] Change allocate(std::uint64_t offset, std::uint64_t size) noexcept {
        return {Change::What::allocate, descriptor_, offset, size};
    }

    [[nodiscard]] detail::StatusOperation status() noexcept {
        return detail::StatusOperation(descriptor_);
    }

    /// Closes the file and tells what close(2) says, which on a network file system may be an error of
    /// an earlier write. Operations that are in flight end first; cancelled while it waits for them, it
    /// ends with `operation_canceled`, and the last of them closes the file. Otherwise the file is closed
    /// also in a cancelled task. A file that ends without it is closed on the loop's thread.
    [[nodiscard]] Task<Result<>> close() { return detail::close_file(std::move(descriptor_)); }

    [[nodiscard]] bool is_open() const noexcept { return static_cast<bool>(descriptor_); }
    [[nodiscard]] int native_handle() const noexcept { return descriptor_.get(); }

    /// For operations of other kinds: who has a copy keeps the file open.
    [[nodiscard]] const penstock::detail::SharedDescriptor& shared_descriptor() const noexcept {
        return descriptor_;
    }

private:
    penstock::detail::SharedDescriptor descriptor_;
};

} // namespace penstock::fs
