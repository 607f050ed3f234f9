#pragma once

#include <cerrno>
#include <cstdint>

/// Parts of the io_uring interface that are newer than the kernel headers of liburing 2.3 (Linux
/// 6.1). They have names of this project because the headers' opcodes are enumerators: no `#ifdef`
/// can tell whether a newer header defines one, and a second definition would clash with it.
///
/// The numbers are the kernel's ABI (include/uapi/linux/io_uring.h); each comment names the first
/// Linux that has it. Support is never derived from the kernel's version: opcodes are probed
/// (IORING_REGISTER_PROBE), flags are tried.
///
/// Left out on purpose: IORING_SETUP_NO_SQARRAY (1 << 16, Linux 6.6). The kernel accepts it, but
/// liburing before 2.5 still writes the array that then does not exist, over the ring's own head.
namespace penstock::io::uring {

/// Opcodes, for `io_uring_sqe::opcode`.
enum Opcode : std::uint8_t {
    op_read_multishot = 49, ///< 6.7; pipes, sockets and terminals, not regular files
    op_ftruncate = 55,      ///< 6.9
    op_readv_fixed = 60,    ///< 6.15
    op_writev_fixed = 61,   ///< 6.15
};

/// For preadv2(2) and `io_uring_sqe::rw_flags`: EPIPE raises no SIGPIPE. Linux 6.18.
inline constexpr int rwf_nosignal = 0x100;

/// A completion's result as the system call would return it. The opening of a FIFO that is
/// interrupted reports the kernel's internal codes for EINTR: ERESTARTSYS and its relatives, 512 to
/// 516.
constexpr std::int32_t result_of(std::int32_t completion) noexcept {
    constexpr std::int32_t first = -516;
    constexpr std::int32_t last = -512;
    return first <= completion && completion <= last ? -EINTR : completion;
}

} // namespace penstock::io::uring
