#include "submission_queue.hpp"

#include <atomic>
#include <cassert>

namespace penstock::python::uring {

SubmissionQueue::SubmissionQueue(RingObject* ring) noexcept
    : Lease("a ring's submission queue"), queue_(ring->ring.sq),
      has_kernel_thread_(has_kernel_thread(ring)) {
    assert(ring->life == RingObject::Life::open || ring->life == RingObject::Life::closing);
}

std::uint32_t SubmissionQueue::begin() const noexcept {
    // A submitting kernel thread may take operations at any time once they are published.
    return has_kernel_thread_ ? queue_.sqe_head : io_uring_smp_load_acquire(queue_.khead);
}

std::uint32_t SubmissionQueue::free() const noexcept {
    return queue_.ring_entries - (queue_.sqe_tail - io_uring_smp_load_acquire(queue_.khead));
}

const io_uring_sqe* SubmissionQueue::last() const noexcept {
    return prepared() > 0 ? &queue_.sqes[(queue_.sqe_tail - 1) & queue_.ring_mask] : nullptr;
}

io_uring_sqe* SubmissionQueue::append() noexcept {
    assert(free() > 0);
    return &queue_.sqes[queue_.sqe_tail++ & queue_.ring_mask];
}

void SubmissionQueue::remove_last() noexcept {
    assert(prepared() > 0);
    --queue_.sqe_tail;
    if (!has_kernel_thread_ && queue_.sqe_head - queue_.sqe_tail == 1) {
        // The operation was published to a kernel that refused it.
        queue_.sqe_head = queue_.sqe_tail;
        io_uring_smp_store_release(queue_.ktail, queue_.sqe_tail);
    }
}

std::uint32_t SubmissionQueue::show() noexcept {
    if (queue_.sqe_head != queue_.sqe_tail) {
        queue_.sqe_head = queue_.sqe_tail;
        io_uring_smp_store_release(queue_.ktail, queue_.sqe_tail);
        if (has_kernel_thread_) {
            // Whether that thread sleeps must be read after the new tail is visible to it.
            std::atomic_thread_fence(std::memory_order_seq_cst);
        }
    }
    return queue_.sqe_tail - io_uring_smp_load_acquire(queue_.khead);
}

} // namespace penstock::python::uring
