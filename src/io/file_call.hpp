#pragma once

#include <cstdint>

#include <penstock/io/file_operation.hpp>

namespace penstock::io {

/// What a file operation needs of the thread that performs it with plain system calls.
class CallContext {
public:
    CallContext() = default;
    CallContext(const CallContext&) = delete;
    CallContext& operator=(const CallContext&) = delete;
    virtual ~CallContext() = default;

    /// Blocks until `fd` is ready for `events` (poll(2)). 0, -ECANCELED once the operation is
    /// cancelled, or another negated errno.
    virtual int wait_until_ready(int fd, short events) noexcept = 0;

    [[nodiscard]] virtual bool cancelled() noexcept = 0;

    std::uint32_t max_transfer = 0x7ffff000;
};

/// Whether a transfer on `fd` may block for as long as it likes: a pipe, a socket, a terminal.
[[nodiscard]] bool is_stream(int fd) noexcept;

/// Performs an operation, blocking, and returns its result. A `read_file` that needs more room says
/// so in `engine.wants_room`, and goes on when it is performed again with it.
std::int64_t perform(FileOperation& operation, CallContext& context) noexcept;

/// What is left to move of a transfer: a read's or a write's piece of memory, a readv's or a writev's
/// remaining parts.
struct Span {
    void* memory;
    std::uint32_t size; ///< bytes, or parts
    std::int64_t position;
};

[[nodiscard]] Span rest_of(const FileOperation& operation, std::uint32_t max_transfer) noexcept;

/// Takes a system call's count into account. True when the transfer is at its end.
[[nodiscard]] bool advance(FileOperation& operation, std::uint32_t count) noexcept;

/// Lets a `read_file` ask its owner for room for a file of `size` bytes (not more than what has been read:
/// unknown), and returns the capacity that it needs, or -EFBIG.
[[nodiscard]] std::int64_t ask_for_room(FileOperation& operation, std::uint64_t size) noexcept;

/// Closes what an operation that is not to go on has open.
void close_what_it_opened(FileOperation& operation) noexcept;

} // namespace penstock::io
