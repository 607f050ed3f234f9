#pragma once

#include "uring_ring.hpp"

namespace penstock::python {

/// A ring's submission queue, for as long as no Python code can run.
///
/// Python code may prepare, submit and discard, and may unmap the queue by closing the ring. So nothing
/// that was read of the queue holds any longer once such code may have run; a lease is taken, used and
/// given back between two such places, and the next one reads everything again. Nobody else looks into
/// `RingObject::ring.sq`.
class SubmissionQueue : Lease {
public:
    /// The ring must be open or closing, and of this process: else there is no queue.
    explicit SubmissionQueue(RingObject* ring) noexcept;

    /// Places for operations.
    [[nodiscard]] std::uint32_t size() const noexcept { return queue_.ring_entries; }

    /// Operations that the kernel has not been shown, or has refused.
    [[nodiscard]] std::uint32_t prepared() const noexcept { return queue_.sqe_tail - begin(); }

    /// Operations that the kernel has not been shown.
    [[nodiscard]] std::uint32_t unseen() const noexcept {
        return queue_.sqe_tail - queue_.sqe_head;
    }

    /// How many operations the kernel has been shown, over all time.
    [[nodiscard]] std::uint32_t shown() const noexcept { return queue_.sqe_head; }

    [[nodiscard]] std::uint32_t free() const noexcept;

    /// IORING_SQ_*
    [[nodiscard]] std::uint32_t flags() const noexcept {
        return io_uring_smp_load_acquire(queue_.kflags);
    }

    /// The last of the operations prepared; null if there are none.
    [[nodiscard]] const io_uring_sqe* last() const noexcept;

    /// Of the operations prepared, the one that is `distance` before the last.
    [[nodiscard]] io_uring_sqe& from_last(std::uint32_t distance) noexcept {
        return queue_.sqes[(queue_.sqe_tail - 1 - distance) & queue_.ring_mask];
    }

    /// The place for one more, to be filled whole. There must be one free.
    io_uring_sqe* append() noexcept;

    /// Takes the last of the operations prepared back.
    void remove_last() noexcept;

    /// Shows the kernel what is prepared; how much it has not taken yet.
    std::uint32_t show() noexcept;

private:
    [[nodiscard]] std::uint32_t begin() const noexcept;

    io_uring_sq& queue_;
    bool has_kernel_thread_;
};

/// Whether a thread of the kernel takes what is prepared.
inline bool has_kernel_thread(const RingObject* ring) noexcept {
    return (ring->ring.flags & IORING_SETUP_SQPOLL) != 0;
}

} // namespace penstock::python
