#pragma once

#include <cstdint>

struct io_uring;
struct io_uring_params;

namespace penstock::io {

/// The system calls of a ring, and the features that the kernel reports. Tests derive from it to
/// simulate a kernel that refuses rings, lacks opcodes or is short of memory.
///
/// One virtual call for each submission, which is a system call; none for an operation.
class RingKernel {
public:
    RingKernel() = default;
    RingKernel(const RingKernel&) = delete;
    RingKernel& operator=(const RingKernel&) = delete;
    virtual ~RingKernel() = default;

    /// io_uring_setup(2), the mapping of the queues, and one io_uring_enter(2) without requests,
    /// which shows whether the ring may be used. Returns 0 or a negated errno.
    virtual int set_up(unsigned entries, io_uring& ring, io_uring_params& parameters) noexcept;

    /// The supported opcodes as bits; 0 where the kernel has no probe (before Linux 5.6).
    virtual std::uint64_t supported_opcodes(io_uring& ring) noexcept;

    /// Submits the prepared requests. Returns their number, or a negated errno.
    virtual int submit(io_uring& ring) noexcept;

    /// Whether to try writes without SIGPIPE (RWF_NOSIGNAL). The flag cannot be probed: the result
    /// of the first write shows whether the kernel supports it.
    virtual bool may_support_nosignal() noexcept { return true; }

    /// The kernel that runs this process.
    static RingKernel& running() noexcept;
};

} // namespace penstock::io
