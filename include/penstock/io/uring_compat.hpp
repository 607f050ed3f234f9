#pragma once

#include <cerrno>
#include <cstdint>

/// What io_uring has gained since the kernel headers that liburing 2.3 carries (Linux 6.1), under names
/// of this project's own: the headers' opcodes are enumerators, so no `#ifdef` can tell whether a newer
/// header has one already, and a second definition would clash with it.
///
/// The numbers are the kernel's ABI (include/uapi/linux/io_uring.h); the comment tells since which
/// Linux. Whether the running kernel knows one is never read off its version: opcodes are asked by
/// IORING_REGISTER_PROBE, feature bits are in what io_uring_setup(2) returned, and flags are tried.
///
/// Left out on purpose: IORING_SETUP_NO_SQARRAY (1 << 16, Linux 6.6). The kernel takes it, but liburing
/// before 2.5 goes on to write the array that is not there, over the ring's own head.
namespace penstock::io::uring {

/// Opcodes, `io_uring_sqe::opcode`.
enum Opcode : std::uint8_t {
    op_read_multishot = 49,   ///< 6.7; pipes, sockets and their kin, not regular files
    op_waitid = 50,           ///< 6.7
    op_futex_wait = 51,       ///< 6.7
    op_futex_wake = 52,       ///< 6.7
    op_futex_waitv = 53,      ///< 6.7
    op_fixed_fd_install = 54, ///< 6.8
    op_ftruncate = 55,        ///< 6.9
    op_bind = 56,             ///< 6.11
    op_listen = 57,           ///< 6.11
    op_recv_zc = 58,          ///< 6.15
    op_epoll_wait = 59,       ///< 6.15
    op_readv_fixed = 60,      ///< 6.15
    op_writev_fixed = 61,     ///< 6.15
    op_pipe = 62,             ///< 6.16
    op_nop128 = 63,           ///< 6.19
    op_uring_cmd128 = 64,     ///< 6.19
};

/// io_uring_register(2) operations.
enum RegisterOperation : std::uint8_t {
    register_pbuf_status = 26,   ///< 6.8
    register_napi = 27,          ///< 6.9
    unregister_napi = 28,        ///< 6.9
    register_clock = 29,         ///< 6.12
    register_clone_buffers = 30, ///< 6.12
    register_send_msg_ring = 31, ///< 6.13
    register_zcrx_ifq = 32,      ///< 6.15
    register_resize_rings = 33,  ///< 6.13; wants IORING_SETUP_DEFER_TASKRUN
    register_mem_region = 34,    ///< 6.13
    register_query = 35,         ///< 6.18
};

inline constexpr std::uint32_t setup_no_mmap = 1U << 14;            ///< 6.5
inline constexpr std::uint32_t setup_registered_fd_only = 1U << 15; ///< 6.5
inline constexpr std::uint32_t setup_hybrid_iopoll = 1U << 17;      ///< 6.13; with IOPOLL only
inline constexpr std::uint32_t setup_cqe_mixed = 1U << 18;          ///< 6.18
inline constexpr std::uint32_t setup_sqe_mixed = 1U << 19;          ///< 6.19

inline constexpr std::uint32_t feature_reg_reg_ring = 1U << 13;    ///< 6.3
inline constexpr std::uint32_t feature_recvsend_bundle = 1U << 14; ///< 6.10
inline constexpr std::uint32_t feature_min_timeout = 1U << 15;     ///< 6.12
inline constexpr std::uint32_t feature_rw_attr = 1U << 16;         ///< 6.14
inline constexpr std::uint32_t feature_no_iowait = 1U << 17;       ///< 6.15

inline constexpr std::uint32_t enter_abs_timer = 1U << 5;   ///< 6.12
inline constexpr std::uint32_t enter_ext_arg_reg = 1U << 6; ///< 6.13
inline constexpr std::uint32_t enter_no_iowait = 1U << 7;   ///< 6.15

inline constexpr std::uint32_t cqe_f_buf_more = 1U << 4; ///< 6.12; the buffer has room left
inline constexpr std::uint32_t cqe_f_skip = 1U << 5;     ///< 6.18
inline constexpr std::uint32_t cqe_f_32 = 1U << 15;      ///< 6.18

inline constexpr std::uint32_t cancel_userdata = 1U << 4; ///< 6.6
inline constexpr std::uint32_t cancel_op = 1U << 5;       ///< 6.6

inline constexpr std::uint32_t timeout_multishot = 1U << 6; ///< 6.4

inline constexpr std::uint16_t recvsend_bundle = 1U << 4;   ///< 6.10; in `ioprio`
inline constexpr std::uint16_t send_vectorized = 1U << 5;   ///< 6.17; in `ioprio`
inline constexpr std::uint16_t accept_dontwait = 1U << 1;   ///< 6.10; in `ioprio`
inline constexpr std::uint16_t accept_poll_first = 1U << 2; ///< 6.10; in `ioprio`

inline constexpr std::uint16_t pbuf_ring_mmap = 1U << 0; ///< 6.4; in `io_uring_buf_reg::pad`
inline constexpr std::uint16_t pbuf_ring_inc = 1U << 1;  ///< 6.12; in `io_uring_buf_reg::pad`
inline constexpr std::uint64_t offset_pbuf_ring = 0x80000000ULL;
inline constexpr unsigned offset_pbuf_shift = 16;

inline constexpr std::uint32_t msg_ring_flags_pass = 1U << 1; ///< 6.3
inline constexpr std::uint32_t fixed_fd_no_cloexec = 1U << 0; ///< 6.8; in `rw_flags`

inline constexpr std::uint32_t nop_inject_result = 1U << 0; ///< 6.10; in `rw_flags`

/// Per-I/O flags of preadv2(2) that the C library's headers may lack.
inline constexpr int rwf_noappend = 0x20;  ///< 6.9
inline constexpr int rwf_nosignal = 0x100; ///< 6.18; EPIPE raises no SIGPIPE
inline constexpr int rwf_dontcache = 0x80; ///< 6.14

/// io_uring_enter(2)'s extended argument: `min_wait_microseconds` has taken the place of `pad`.
struct GetEventsArgument {
    std::uint64_t signal_mask;
    std::uint32_t signal_mask_size;
    std::uint32_t min_wait_microseconds; ///< with `feature_min_timeout`, else 0
    std::uint64_t timeout;               ///< the address of a __kernel_timespec, or 0
};
static_assert(sizeof(GetEventsArgument) == 24);

/// A completion's result as a system call would have returned it. The opening of a FIFO that is cut
/// short lets out what is the kernel's own word for EINTR: ERESTARTSYS and its kin, 512 to 516.
constexpr std::int32_t result_of(std::int32_t completion) noexcept {
    constexpr std::int32_t first = -516;
    constexpr std::int32_t last = -512;
    return first <= completion && completion <= last ? -EINTR : completion;
}

} // namespace penstock::io::uring
