#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include <penstock/detail/io/shared_descriptor.hpp>
#include <penstock/fs/detail/file_operations.hpp>
#include <penstock/fs/open_options.hpp>
#include <penstock/io/files/cached_read.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/task/task.hpp>

namespace penstock::fs {

/// An open file. Reads and writes run on the loop's file engine (io_uring or worker threads) and do
/// not block the loop. A read of up to 2 MiB is first tried on the loop's thread, from the page
/// cache (RWF_NOWAIT, preadv2(2)), unless the file was a terminal or open with O_DIRECT when this
/// object took its descriptor.
///
///     Result<fs::File> file = co_await fs::File::open("measurements.csv");
///
/// `read` and `write_all` use and move the file's position, so only one task at a time may call
/// them. Any number of `read_at` and `write_all_at` may be in flight.
///
/// Cancellation: a cancelled operation ends when the kernel has released its buffer, with
/// `operation_canceled`, or with its own result if that came first.
///
/// Lifetime: the file stays open until its operations have ended, even if this object is closed,
/// assigned to or destroyed before. Otherwise the kernel could give the descriptor's number to
/// another file while an operation uses it.
///
/// Thread safety: none. A file is not bound to a loop: it may be used on several loops in turn.
class File {
public:
    using Open = detail::OpenOperation;
    using Read = detail::ReadOperation;
    using Write = detail::WriteOperation;
    using Change = detail::DescriptorOperation;

    /// A closed file.
    File() = default;
    /// Takes ownership of a descriptor. Throws `std::bad_alloc`, and then closes the descriptor.
    explicit File(OwnedDescriptor descriptor)
        : descriptor_(std::move(descriptor)),
          cached_(io::supports_cached_reads(descriptor_.get())) {}

    File(File&&) noexcept = default;
    File& operator=(File&&) noexcept = default;
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File() = default;

    /// Opens a file, by default for reading. Errors: those of open(2), such as
    /// `no_such_file_or_directory`, `permission_denied`, `file_exists` and `is_a_directory`;
    /// `invalid_argument` for a path with a zero byte.
    [[nodiscard]] static Open open(std::string_view path, const OpenOptions& options) {
        return {path, options};
    }
    [[nodiscard]] static Open open(std::string_view path) { return open(path, OpenOptions()); }

    /// Reads at the file's position. Returns the number of bytes read, at most `into.size()`, and
    /// perhaps fewer before the end of the file. 0 is the end of the file.
    [[nodiscard]] Read read(MutableBytes into) noexcept { return {descriptor_, cached_, into}; }

    /// Reads at an offset, in bytes. Returns fewer than `into.size()` only at the end of the file.
    [[nodiscard]] Read read_at(std::uint64_t offset, MutableBytes into) noexcept {
        return {descriptor_, cached_, into, offset};
    }

    /// Writes all of `from`. A failed or cancelled write may have written a part. A FIFO without a
    /// reader returns `broken_pipe`, without SIGPIPE.
    [[nodiscard]] Write write_all(Bytes from) noexcept { return {descriptor_, from}; }
    [[nodiscard]] Write write_all_at(std::uint64_t offset, Bytes from) noexcept {
        return {descriptor_, from, offset};
    }

    /// Sets the position of the next `read` or `write_all`, in bytes, and returns it. `position`
    /// only returns it. Errors: those of lseek(2).
    Result<std::uint64_t> seek(std::uint64_t offset) noexcept;
    Result<std::uint64_t> seek_to_end() noexcept;
    [[nodiscard]] Result<std::uint64_t> position() const noexcept;

    /// Returns when everything written is on the device (fsync(2)). `sync_data` skips metadata that
    /// is not needed to read the data (fdatasync(2)). After an error the content of the device is
    /// unknown, and the kernel may not report the error again.
    [[nodiscard]] Change sync() noexcept { return {Change::What::sync, descriptor_}; }
    [[nodiscard]] Change sync_data() noexcept { return {Change::What::sync_data, descriptor_}; }

    /// Truncates the file, or extends it with zeros.
    [[nodiscard]] Change truncate(std::uint64_t size) noexcept {
        return {Change::What::truncate, descriptor_, size};
    }

    /// Reserves space on the device, and extends the file if it is shorter (posix_fallocate(3)).
    [[nodiscard]] Change allocate(std::uint64_t offset, std::uint64_t size) noexcept {
        return {Change::What::allocate, descriptor_, offset, size};
    }

    [[nodiscard]] detail::StatusOperation status() noexcept {
        return detail::StatusOperation(descriptor_);
    }

    /// Closes the file and returns the result of close(2). On a network file system that may be the
    /// error of an earlier write. Waits for operations in flight first.
    ///
    /// Cancellation: if the task is cancelled while it waits for those operations, this returns
    /// `operation_canceled`, and the last of them closes the file. Without operations in flight,
    /// even a cancelled task closes the file. The destructor of a file that was not closed closes
    /// it with a blocking close(2).
    [[nodiscard]] Task<Result<>> close() { return detail::close_file(std::move(descriptor_)); }

    [[nodiscard]] bool is_open() const noexcept { return static_cast<bool>(descriptor_); }
    [[nodiscard]] int native_handle() const noexcept { return descriptor_.get(); }

    /// For other operations: a copy keeps the file open.
    [[nodiscard]] const penstock::detail::SharedDescriptor& shared_descriptor() const noexcept {
        return descriptor_;
    }

private:
    penstock::detail::SharedDescriptor descriptor_;
    bool cached_ = false;
};

} // namespace penstock::fs
