// Handing operations to the kernel, waiting for it, and ending them.

#include "uring_ring.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace penstock::python {

namespace {

/// Above this a submission that copies from the page cache takes longer than handing the GIL over.
constexpr std::size_t gil_free_bytes = std::size_t{64} * 1024;

/// How long a drain waits before it asks again: a hard link may have started the next operation.
constexpr std::int64_t drain_patience = 20'000'000;

bool has_kernel_thread(const RingObject* self) noexcept {
    return (self->ring.flags & IORING_SETUP_SQPOLL) != 0;
}

std::uint32_t submission_flags(const RingObject* self) noexcept {
    return io_uring_smp_load_acquire(self->ring.sq.kflags);
}

/// Shows the kernel what is prepared; how much it has not taken yet.
std::uint32_t flush(RingObject* self) noexcept {
    io_uring_sq& queue = self->ring.sq;
    if (queue.sqe_head != queue.sqe_tail) {
        queue.sqe_head = queue.sqe_tail;
        io_uring_smp_store_release(queue.ktail, queue.sqe_tail);
        if (has_kernel_thread(self)) {
            // Whether that thread sleeps must be looked up after it could have seen the new tail.
            std::atomic_thread_fence(std::memory_order_seq_cst);
        }
    }
    return queue.sqe_tail - io_uring_smp_load_acquire(queue.khead);
}

/// What ends a look at the kernel.
struct Enter {
    std::uint32_t to_submit = 0;
    std::uint32_t min_complete = 0;
    bool events = false; ///< also let the kernel finish what it deferred
    std::optional<std::int64_t> timeout = std::nullopt;
    bool release_gil = false;
};

/// io_uring_enter(2): what was submitted, or a negated errno.
int enter(RingObject* self, const Enter& call) noexcept {
    unsigned flags = call.events || call.min_complete > 0 ? IORING_ENTER_GETEVENTS : 0U;
    if (has_kernel_thread(self) && (submission_flags(self) & IORING_SQ_NEED_WAKEUP) != 0) {
        flags |= IORING_ENTER_SQ_WAKEUP;
    }
    __kernel_timespec timeout{};
    io_uring_getevents_arg argument{};
    void* extra = nullptr;
    std::size_t extra_size = _NSIG / 8;
    if (call.timeout) {
        timeout.tv_sec = *call.timeout / nanoseconds_per_second;
        timeout.tv_nsec = *call.timeout % nanoseconds_per_second;
        argument.sigmask_sz = _NSIG / 8;
        argument.ts = reinterpret_cast<std::uintptr_t>(&timeout);
        flags |= IORING_ENTER_EXT_ARG;
        extra = &argument;
        extra_size = sizeof argument;
    }
    const auto descriptor = static_cast<unsigned>(self->ring.ring_fd);
    PyThreadState* thread = call.release_gil ? PyEval_SaveThread() : nullptr;
    const int result = io_uring_enter2(descriptor, call.to_submit, call.min_complete, flags,
                                       static_cast<sigset_t*>(extra), extra_size);
    if (thread != nullptr) {
        PyEval_RestoreThread(thread);
    }
    return result;
}

/// A chain must not be cut in two: the kernel ends it with the submission.
bool check_chain_complete(const RingObject* self) noexcept {
    const io_uring_sq& queue = self->ring.sq;
    if (queue.sqe_head == queue.sqe_tail) {
        return true;
    }
    const io_uring_sqe& last = queue.sqes[(queue.sqe_tail - 1) & queue.ring_mask];
    if ((last.flags & (IOSQE_IO_LINK | IOSQE_IO_HARDLINK)) != 0) {
        PyErr_SetString(
            PyExc_ValueError,
            "the last prepared operation is linked to a next one; prepare that, or take "
            "everything back with discard()");
        return false;
    }
    return true;
}

/// Submits and waits. `missing()` says how many completions must still come; 0 ends the wait.
template <typename Missing>
Py_ssize_t submit_until(RingObject* self, const Missing& missing,
                        std::optional<std::int64_t> deadline, bool heed_signals) noexcept {
    const std::uint32_t before = self->ring.sq.sqe_head;
    Py_ssize_t submitted = 0;
    bool late = false;
    for (;;) {
        reap(self);
        if (self->life != RingObject::Life::open) {
            PyErr_SetString(PyExc_ValueError, "the ring was closed meanwhile");
            return -1;
        }
        std::uint32_t waiting = flush(self);
        if (has_kernel_thread(self)) {
            submitted = self->ring.sq.sqe_head - before;
            if ((submission_flags(self) & IORING_SQ_NEED_WAKEUP) == 0) {
                waiting = 0; // its thread takes them
            }
        }
        const std::size_t wanted = missing();
        if (waiting == 0 && (wanted == 0 || late)) {
            return submitted;
        }
        Enter call{.to_submit = waiting};
        if (wanted > 0) {
            call.events = true;
            if (deadline) {
                const std::int64_t left = *deadline - monotonic_now();
                late = left <= 0;
                call.timeout = std::max<std::int64_t>(left, 0);
            }
            if (!late) {
                const std::size_t bound = self->ring.cq.ring_entries;
                call.min_complete = static_cast<std::uint32_t>(std::min(wanted, bound));
            } else {
                call.timeout.reset();
            }
        }
        call.release_gil = call.min_complete > 0 || self->unsubmitted_bytes > gil_free_bytes;
        self->unsubmitted_bytes = 0;
        ++self->submit_round;
        const int result = enter(self, call);
        // A wait that a signal has cut short tells what it had submitted, not EINTR.
        if (call.min_complete > 0 && heed_signals && PyErr_CheckSignals() != 0) {
            return -1;
        }
        if (result >= 0) {
            if (!has_kernel_thread(self)) {
                submitted += result;
            }
            if (result > 0 || waiting == 0 || has_kernel_thread(self)) {
                continue;
            }
        }
        switch (result) {
        case -EINTR:
            continue;
        case -ETIME:
            late = true;
            continue;
        case -EBUSY:
        case -EAGAIN:
        case 0: {
            // Room in the completion queue may be all that was missing.
            const std::size_t known = self->operations.in_flight();
            if (enter(self, {.events = true}) >= 0) {
                reap(self);
            }
            if (self->operations.in_flight() < known) {
                continue;
            }
            break;
        }
        default:
            break;
        }
        const int error = result == 0 ? EAGAIN : -result;
        raise_error(self->state, error,
                    "io_uring_enter() refused %u operations (%s); those not taken stay prepared: "
                    "submit() again, or discard() them",
                    waiting, std::strerror(error));
        return -1;
    }
}

RingObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<RingObject*>(object);
}

PyObject* submit_method(PyObject* object, PyObject* /*unused*/) {
    RingObject* self = self_of(object);
    if (!check_usable(self)) {
        return nullptr;
    }
    const Py_ssize_t count = submit(self);
    return count < 0 ? nullptr : PyLong_FromSsize_t(count);
}

PyObject* discard(PyObject* object, PyObject* /*unused*/) {
    RingObject* self = self_of(object);
    return check_usable(self) ? PyLong_FromSize_t(discard_prepared(self)) : nullptr;
}

/// Asks for the end of everything in flight, as far as the queue has room.
void prepare_cancels(RingObject* self, bool each) noexcept {
    if (!each) {
        if (io_uring_sqe* entry = io_uring_get_sqe(&self->ring)) {
            std::memset(entry, 0, sizeof *entry);
            entry->opcode = IORING_OP_ASYNC_CANCEL;
            entry->fd = -1;
            entry->cancel_flags = IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL;
            entry->user_data = internal_mark;
        }
        return;
    }
    // Kernels before 5.19 know no "any": one by one.
    for (std::uint32_t slot = 0; slot < self->operations.slots(); ++slot) {
        if (!self->operations.at(slot).used || self->operations.at(slot).done) {
            continue;
        }
        io_uring_sqe* entry = io_uring_get_sqe(&self->ring);
        if (entry == nullptr) {
            return;
        }
        std::memset(entry, 0, sizeof *entry);
        entry->opcode = IORING_OP_ASYNC_CANCEL;
        entry->fd = -1;
        entry->addr = self->operations.key(slot);
        entry->user_data = internal_mark;
    }
}

} // namespace

void fetch_deferred(RingObject* self) noexcept {
    if ((submission_flags(self) & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN)) != 0) {
        (void)enter(self, {.events = true}); // its failure shows as what is missing
        reap(self);
    }
}

Py_ssize_t submit(RingObject* self) noexcept {
    if (!check_chain_complete(self)) {
        return -1;
    }
    return submit_until(self, [] { return std::size_t{0}; }, std::nullopt, true);
}

Py_ssize_t submit_and_wait(RingObject* self, std::size_t wanted,
                           std::optional<std::int64_t> deadline) noexcept {
    if (!check_chain_complete(self)) {
        return -1;
    }
    const auto missing = [&]() -> std::size_t {
        const std::size_t have = self->finished.size();
        if (have >= wanted) {
            return 0;
        }
        const std::size_t possible = self->operations.in_flight();
        // With nothing in flight only another ring's messages can come.
        return std::min(wanted - have, possible == 0 && deadline ? 1 : possible);
    };
    return submit_until(self, missing, deadline, true);
}

bool wait_for_batch(RingObject* self, ReadBatch& batch, std::size_t keep) noexcept {
    Ref raised;
    unsigned failures = 0;
    const auto missing = [&] { return batch.in_flight > keep ? batch.in_flight - keep : 0; };
    while (missing() > 0) {
        if (submit_until(self, missing, std::nullopt, !raised) < 0) {
            // The kernel fills the batch's memory: it must end before the exception leaves.
            raised = take_exception();
            discard_prepared(self, &batch);
            keep = 0;
            constexpr unsigned patience = 8;
            if (++failures == patience) {
                abandon(self); // somebody has closed the ring's descriptor
                break;
            }
        }
    }
    if (raised) {
        raise_exception(std::move(raised));
        return false;
    }
    return true;
}

std::size_t discard_prepared(RingObject* self, const ReadBatch* only) noexcept {
    std::size_t count = 0;
    io_uring_sq& queue = self->ring.sq;
    for (;;) {
        const std::uint32_t begin =
            has_kernel_thread(self) ? queue.sqe_head : io_uring_smp_load_acquire(queue.khead);
        if (begin == queue.sqe_tail) {
            self->unsubmitted_bytes = 0;
            return count;
        }
        const std::uint64_t key = queue.sqes[(queue.sqe_tail - 1) & queue.ring_mask].user_data;
        const std::uint32_t slot = self->operations.slot_of(key);
        if (only != nullptr &&
            (slot == OperationTable::no_slot || self->operations.at(slot).batch != only)) {
            return count;
        }
        --queue.sqe_tail;
        if (!has_kernel_thread(self) && queue.sqe_head - queue.sqe_tail == 1) {
            // It was shown to a kernel that refused it.
            queue.sqe_head = queue.sqe_tail;
            io_uring_smp_store_release(queue.ktail, queue.sqe_tail);
        }
        if (slot != OperationTable::no_slot) {
            if (ReadBatch* batch = self->operations.at(slot).batch) {
                --batch->in_flight;
            }
            drop(self->operations.remove(slot));
            ++count;
        }
    }
}

bool drain(RingObject* self) noexcept {
    Ref raised = take_exception();
    discard_prepared(self);
    bool each = false;
    bool drained = true;
    for (reap(self); self->operations.in_flight() > 0; reap(self)) {
        prepare_cancels(self, each);
        each = !each;
        const std::uint32_t waiting = flush(self);
        const Enter call{
            .to_submit = waiting,
            .min_complete = 1,
            .events = true,
            .timeout = drain_patience,
            .release_gil = true,
        };
        const int result = enter(self, call);
        if (result < 0 && result != -EINTR && result != -ETIME && result != -EBUSY &&
            result != -EAGAIN) {
            drained = false;
            break;
        }
        // The answers to the cancels come first; what they ended may take a moment longer.
        const std::int64_t end = monotonic_now() + drain_patience;
        for (reap(self); self->operations.in_flight() > 0; reap(self)) {
            const std::int64_t left = end - monotonic_now();
            if (left <= 0) {
                break;
            }
            (void)enter(self,
                        {.min_complete = 1, .events = true, .timeout = left, .release_gil = true});
        }
    }
    if (raised) {
        raise_exception(std::move(raised));
    }
    return drained;
}

std::int64_t monotonic_now() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * nanoseconds_per_second + now.tv_nsec;
}

std::uint32_t prepared_count(const RingObject* self) noexcept {
    const io_uring_sq& queue = self->ring.sq;
    return queue.sqe_tail -
           (has_kernel_thread(self) ? queue.sqe_head : io_uring_smp_load_acquire(queue.khead));
}

std::uint32_t free_entries(const RingObject* self) noexcept {
    const io_uring_sq& queue = self->ring.sq;
    return queue.ring_entries - (queue.sqe_tail - io_uring_smp_load_acquire(queue.khead));
}

bool make_room(RingObject* self, std::size_t count) noexcept {
    const io_uring_sq& queue = self->ring.sq;
    if (free_entries(self) >= count) {
        return true;
    }
    const std::size_t unseen = queue.sqe_tail - queue.sqe_head;
    if (!has_kernel_thread(self) || unseen + count > queue.ring_entries) {
        return false;
    }
    // The kernel's thread frees places some time after it has taken what was there.
    while (free_entries(self) < count) {
        const unsigned asleep = submission_flags(self) & IORING_SQ_NEED_WAKEUP;
        const unsigned flags = IORING_ENTER_SQ_WAIT | (asleep != 0 ? IORING_ENTER_SQ_WAKEUP : 0U);
        const auto descriptor = static_cast<unsigned>(self->ring.ring_fd);
        PyThreadState* thread = PyEval_SaveThread();
        const int result = io_uring_enter(descriptor, 0, 0, flags, nullptr);
        PyEval_RestoreThread(thread);
        if (result < 0 && result != -EINTR) {
            return false;
        }
    }
    return true;
}

io_uring_sqe* next_entry(RingObject* self) noexcept {
    io_uring_sq& queue = self->ring.sq;
    if (!make_room(self, 1)) {
        raise_error(
            self->state, EBUSY,
            "the submission queue is full: %u operations are prepared; submit() them first, "
            "or make the ring with more entries",
            queue.ring_entries);
        return nullptr;
    }
    io_uring_sqe* entry = &queue.sqes[queue.sqe_tail & queue.ring_mask];
    ++queue.sqe_tail;
    return entry;
}

PyMethodDef submission_methods[] = {
    {"submit", &submit_method, METH_NOARGS,
     "Hand what is prepared to the kernel; returns the number of operations.\n\n"
     "Does not wait. Raises UringError if the kernel refuses; what it has not taken stays "
     "prepared."},
    {"discard", &discard, METH_NOARGS,
     "Take back what is prepared and not submitted; returns the number of operations."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace penstock::python
