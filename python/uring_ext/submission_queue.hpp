#pragma once

#include "ring.hpp"

namespace penstock::python::uring {

/// A ring's submission queue, for as long as no Python code can run.
///
/// Python code may prepare, submit and discard operations, and may unmap the queue by closing the
/// ring. So nothing that was read from the queue is valid once such code may have run. A lease is
/// taken, used and released between two such places, and the next one reads everything again. No
/// other code accesses `RingObject::ring.sq`.
class SubmissionQueue : Lease {
public:
    /// The ring must be open or closing, and of this process: otherwise there is no queue.
    explicit SubmissionQueue(RingObject* ring) noexcept;

    /// The number of places for operations.
    [[nodiscard]] std::uint32_t size() const noexcept { return queue_.ring_entries; }

    /// The number of operations that the kernel has not seen, or has refused.
    [[nodiscard]] std::uint32_t prepared() const noexcept { return queue_.sqe_tail - begin(); }

    /// The number of operations that the kernel has not seen.
    [[nodiscard]] std::uint32_t unseen() const noexcept {
        return queue_.sqe_tail - queue_.sqe_head;
    }

    /// The number of operations that the kernel has seen so far.
    [[nodiscard]] std::uint32_t shown() const noexcept { return queue_.sqe_head; }

    [[nodiscard]] std::uint32_t free() const noexcept;

    /// IORING_SQ_*
    [[nodiscard]] std::uint32_t flags() const noexcept {
        return io_uring_smp_load_acquire(queue_.kflags);
    }

    /// The last prepared operation, or null.
    [[nodiscard]] const io_uring_sqe* last() const noexcept;

    /// The prepared operation `distance` before the last one.
    [[nodiscard]] io_uring_sqe& from_last(std::uint32_t distance) noexcept {
        return queue_.sqes[(queue_.sqe_tail - 1 - distance) & queue_.ring_mask];
    }

    /// The place for one more operation, to be filled whole. There must be a free one.
    io_uring_sqe* append() noexcept;

    /// Discards the last prepared operation.
    void remove_last() noexcept;

    /// Publishes the prepared operations. Returns the number that the kernel has not taken yet.
    std::uint32_t show() noexcept;

private:
    [[nodiscard]] std::uint32_t begin() const noexcept;

    io_uring_sq& queue_;
    bool has_kernel_thread_;
};

/// Whether a kernel thread takes the prepared operations.
inline bool has_kernel_thread(const RingObject* ring) noexcept {
    return (ring->ring.flags & IORING_SETUP_SQPOLL) != 0;
}

} // namespace penstock::python::uring
