#include "uring_submission_queue.hpp"

#include <atomic>
#include <cassert>

namespace penstock::python {

SubmissionQueue::SubmissionQueue(RingObject* ring) noexcept
    : Lease("a ring's submission queue"), queue_(ring->ring.sq),
      has_kernel_thread_(has_kernel_thread(ring)) {
    assert(ring->life == RingObject::Life::open || ring->life == RingObject::Life::closing);
}

std::uint32_t SubmissionQueue::begin() const noexcept {
    // Where a kernel thread takes them, it may do so at any time once it was shown them.
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
        // It was shown to a kernel that refused it.
        queue_.sqe_head = queue_.sqe_tail;
        io_uring_smp_store_release(queue_.ktail, queue_.sqe_tail);
    }
}

std::uint32_t SubmissionQueue::show() noexcept {
    if (queue_.sqe_head != queue_.sqe_tail) {
        queue_.sqe_head = queue_.sqe_tail;
        io_uring_smp_store_release(queue_.ktail, queue_.sqe_tail);
        if (has_kernel_thread_) {
            // Whether that thread sleeps must be looked up after it could have seen the new tail.
            std::atomic_thread_fence(std::memory_order_seq_cst);
        }
    }
    return queue_.sqe_tail - io_uring_smp_load_acquire(queue_.khead);
}

} // namespace penstock::python
