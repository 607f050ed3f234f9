#pragma once

#include <cstddef>
#include <span>

#include <sys/types.h>
#include <sys/uio.h>

#include <penstock/stream/bytes.hpp>

namespace penstock::detail {

/// The system calls of streams that are not sockets (pipes, terminals, serial ports), for the
/// operations of `stream_operations.hpp`: read(2), and writev(2) without SIGPIPE.
struct DescriptorCalls {
    static ssize_t read(int fd, MutableBytes into) noexcept;
    static ssize_t read(int fd, std::span<const iovec> parts) noexcept;

    /// A pipe without a reader returns EPIPE, as a socket does, and raises no SIGPIPE. The
    /// disposition of SIGPIPE belongs to the program: a library must not change it, nor require a
    /// program to.
    static ssize_t write(int fd, std::span<const Bytes> parts, std::size_t offset) noexcept;
};

} // namespace penstock::detail
