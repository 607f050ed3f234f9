#pragma once

#include <cstdint>

#include <penstock/io/files/file_operation.hpp>

namespace penstock::io {

/// The services of the thread that performs a file operation with plain system calls.
class CallContext {
public:
    CallContext() = default;
    CallContext(const CallContext&) = delete;
    CallContext& operator=(const CallContext&) = delete;
    virtual ~CallContext() = default;

    /// Blocks until `fd` is ready for `events` (poll(2)). Returns 0, -ECANCELED if the operation
    /// was cancelled, or another negated errno.
    virtual int wait_until_ready(int fd, short events) noexcept = 0;

    [[nodiscard]] virtual bool cancelled() noexcept = 0;

    std::uint32_t max_transfer = 0x7ffff000;
};

/// Whether a transfer on `fd` may block indefinitely: on a pipe, a socket, a terminal.
[[nodiscard]] bool is_stream(int fd) noexcept;

/// Performs an operation, blocking, and returns its result. A `read_file` that needs a larger
/// buffer sets `engine.needs_capacity`; performed again with that buffer, it continues.
std::int64_t perform(FileOperation& operation, CallContext& context) noexcept;

/// The rest of a transfer: the memory of a read or write, or the remaining parts of a readv or
/// writev.
struct Span {
    void* memory;
    std::uint32_t size; ///< bytes, or parts
    std::int64_t position;
};

[[nodiscard]] Span remaining_span(const FileOperation& operation,
                                  std::uint32_t max_transfer) noexcept;

/// Adds the bytes that a system call has transferred. True if the transfer is complete.
[[nodiscard]] bool advance(FileOperation& operation, std::uint32_t count) noexcept;

/// Makes a `read_file` request a buffer from its owner, for a file of `size` bytes. The size counts
/// as unknown if it is not larger than what was read. Returns the capacity, or -EFBIG if the owner
/// cannot provide a buffer.
[[nodiscard]] std::int64_t request_capacity(FileOperation& operation, std::uint64_t size) noexcept;

/// Closes the descriptor that the ending operation has opened.
void close_opened_fd(FileOperation& operation) noexcept;

} // namespace penstock::io
