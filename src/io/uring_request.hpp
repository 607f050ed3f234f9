#pragma once

#include <cstdint>

#include <liburing.h>

#include <penstock/io/file_operation.hpp>

namespace penstock::io {

/// No opcode does this operation.
inline constexpr unsigned no_opcode = 255;

/// A cached transfer is copied while it is submitted, on the loop's thread. Larger ones than this, a
/// tenth of a millisecond or more, go to a thread of the kernel instead.
inline constexpr std::uint64_t inline_limit = std::uint64_t{1} << 20;

/// The opcode that does an operation, `read_file`s aside, or `no_opcode`.
[[nodiscard]] unsigned opcode_of(const FileOperation& operation) noexcept;

/// Describes an operation that has an opcode, or what is left of one.
void describe(io_uring_sqe& request, const FileOperation& operation,
              std::uint32_t max_transfer) noexcept;

} // namespace penstock::io
