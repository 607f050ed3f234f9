#pragma once

#include <cstdint>

#include <liburing.h>

#include <penstock/io/files/file_operation.hpp>

namespace penstock::io {

/// Means that no opcode executes the operation.
inline constexpr unsigned no_opcode = 255;

/// A transfer of cached data is copied while it is submitted, on the loop's thread. Larger ones
/// than this take a tenth of a millisecond or more and go to a thread of the kernel instead.
inline constexpr std::uint64_t inline_limit = std::uint64_t{1} << 20;

/// The opcode that executes an operation other than a `read_file`, or `no_opcode`.
[[nodiscard]] unsigned opcode_of(const FileOperation& operation) noexcept;

/// Whether a server or a daemon is asked when a file is opened, by what the kernel knows of the
/// path: that, and the first read, would be done on the thread that submits.
[[nodiscard]] bool opens_on_server(const FileOperation& operation) noexcept;

/// Fills in the request for an operation that has an opcode, or for the rest of it.
void describe(io_uring_sqe& request, const FileOperation& operation,
              std::uint32_t max_transfer) noexcept;

} // namespace penstock::io
