#pragma once

#include <cstdint>

#include <penstock/io/files/file_operation.hpp>

namespace penstock::io {

/// What the thread that performs a file operation with plain system calls offers, and what it
/// learns.
class CallContext {
public:
    CallContext() = default;
    CallContext(const CallContext&) = delete;
    CallContext& operator=(const CallContext&) = delete;
    virtual ~CallContext() = default;

    [[nodiscard]] virtual bool cancelled() noexcept = 0;

    std::uint32_t max_transfer = 0x7ffff000;

    /// Whether the thread may be held by another process, in a system call that only a signal ends.
    bool patient = false;

    /// The descriptor that was waited for has become ready.
    bool woken = false;

    /// Of `waits_for_descriptor`: what must become ready (poll(2)).
    int awaited_fd = -1;
    short awaited_events = 0;
};

/// Results of `perform` that are not an errno: the operation is not complete. Performed again, it
/// continues.
constexpr std::int64_t waits_for_descriptor = INT64_MIN; ///< when the descriptor is ready
constexpr std::int64_t needs_patience = INT64_MIN + 1;   ///< by a patient thread

/// Whether `fd` may be not ready for a transfer: a pipe, a socket, a terminal, a device.
[[nodiscard]] bool is_stream(int fd) noexcept;

/// Whether the operation transfers to or from a descriptor that may be not ready, at the
/// descriptor's own position, and may wait for it.
[[nodiscard]] bool is_stream_transfer(const FileOperation& operation) noexcept;

/// The events (poll(2)) that a transfer waits for.
[[nodiscard]] short awaited_by(const FileOperation& operation) noexcept;

/// Performs an operation and returns its result, or one of the two above. A `read_file` that needs
/// a larger buffer sets `engine.needs_capacity`; performed again with that buffer, it continues.
///
/// A thread that is not patient waits for disks, but never for another process:
///
/// - Pipes, sockets and the kernel's event descriptors are read and written with RWF_NOWAIT.
///   O_NONBLOCK would belong to the open file description, which other processes share.
/// - FIFOs, terminals and other devices have no RWF_NOWAIT. They are asked by poll(2), and a
///   patient thread transfers: another reader may take the data between the two calls.
/// - A FIFO is opened by a patient thread. A path is looked at before it is opened.
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
