// Submitting operations, waiting for them, and ending them.

#include "submission_queue.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace penstock::python::uring {

namespace {

/// Above this size, a submission that copies from the page cache takes longer than releasing the
/// GIL.
constexpr std::size_t gil_free_bytes = std::size_t{64} * 1024;

/// The pause of a drain before it checks again: a hard link may have started the next operation.
constexpr std::int64_t drain_timeout = 20'000'000;

/// The conditions that end one io_uring_enter(2).
struct Enter {
    std::uint32_t to_submit = 0;
    std::uint32_t min_complete = 0;
    bool events = false; ///< also let the kernel run deferred work
    std::optional<std::int64_t> timeout = std::nullopt;
    bool release_gil = false;
};

/// io_uring_enter(2). Returns the number of submitted operations, or a negated errno.
int enter(RingObject* self, const Enter& call) noexcept {
    unsigned flags = call.events || call.min_complete > 0 ? IORING_ENTER_GETEVENTS : 0U;
    if (has_kernel_thread(self) && (SubmissionQueue(self).flags() & IORING_SQ_NEED_WAKEUP) != 0) {
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

/// Passes prepared operations to the kernel. Returns how many a system call must submit: with a
/// submitting kernel thread none, unless that thread sleeps.
std::uint32_t show_prepared(RingObject* self) noexcept {
    SubmissionQueue queue(self);
    const std::uint32_t waiting = queue.show();
    const bool taken = has_kernel_thread(self) && (queue.flags() & IORING_SQ_NEED_WAKEUP) == 0;
    return taken ? 0 : waiting;
}

/// Submits and waits. `missing()` returns the number of completions that are still needed; 0 ends
/// the wait.
template <typename Missing>
Py_ssize_t submit_until(RingObject* self, const Missing& missing,
                        std::optional<std::int64_t> deadline) noexcept {
    const std::uint32_t before = SubmissionQueue(self).shown();
    Py_ssize_t submitted = 0;
    bool late = false;
    for (;;) {
        reap(self);
        if (!check_usable(self)) { // releasing completed operations may run Python code
            return -1;
        }
        const std::uint32_t waiting = show_prepared(self);
        if (has_kernel_thread(self)) {
            submitted = SubmissionQueue(self).shown() - before;
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
        // A wait that a signal interrupts returns the number of submitted operations and not EINTR.
        if (call.min_complete > 0 && (PyErr_CheckSignals() != 0 || !check_usable(self))) {
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
            // Room in the completion queue may be all that is missing.
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

/// Requests the cancellation of one operation, or of all with `IORING_ASYNC_CANCEL_ANY`, without
/// waiting. Bypasses the queue, where a cancel waits behind an operation that waits for all before
/// it. False if the kernel does not support this (before Linux 6.0).
bool request_cancel_now(RingObject* self, std::uint64_t key, std::uint32_t flags) noexcept {
    io_uring_sync_cancel_reg request{};
    request.addr = key;
    request.fd = -1;
    request.flags = flags;
    const int result = io_uring_register_sync_cancel(&self->ring, &request);
    return result != -EINVAL && result != -ENOSYS && result != -EOPNOTSUPP;
}

/// The same through the queue, if it has room.
void prepare_cancel(RingObject* self, std::uint64_t key, std::uint32_t flags) noexcept {
    SubmissionQueue queue(self);
    if (queue.free() == 0) {
        return;
    }
    io_uring_sqe* entry = queue.append();
    std::memset(entry, 0, sizeof *entry);
    entry->opcode = IORING_OP_ASYNC_CANCEL;
    entry->fd = -1;
    entry->addr = key;
    entry->cancel_flags = flags;
    entry->user_data = internal_mark;
}

/// Requests the cancellation of each `wanted` operation.
template <typename Wanted> void cancel_each(RingObject* self, const Wanted& wanted) noexcept {
    for (std::uint32_t slot = 0; slot < self->operations.slots(); ++slot) {
        const Operation& operation = self->operations.at(slot);
        const std::uint64_t key = self->operations.key(slot);
        if (operation.started && !operation.done && wanted(operation) &&
            (!request_cancel_now(self, key, 0) || has_kernel_thread(self))) {
            // Only bypassing the queue finds operations that a worker of the submitting kernel
            // thread runs.
            prepare_cancel(self, key, 0);
        }
    }
}

/// Waits a moment for requested cancellations. `left()` returns how many operations remain. False
/// if the kernel no longer answers.
template <typename Left> bool await_end(RingObject* self, const Left& left) noexcept {
    const std::int64_t end = monotonic_now() + drain_timeout;
    for (reap(self); left() > 0 && is_mapped(self); reap(self)) {
        const std::int64_t time_left = end - monotonic_now();
        if (time_left <= 0) {
            break;
        }
        const std::uint32_t waiting = SubmissionQueue(self).show();
        const int result = enter(self, {.to_submit = waiting,
                                        .min_complete = 1,
                                        .events = true,
                                        .timeout = time_left,
                                        .release_gil = true});
        if (result < 0 && result != -EINTR && result != -ETIME && result != -EBUSY &&
            result != -EAGAIN) {
            return false;
        }
    }
    return true;
}

/// Discards the `wanted` operations that the kernel does not have. `wanted` may keep count.
template <typename Wanted> void withdraw(RingObject* self, const Wanted& wanted) noexcept {
    {
        SubmissionQueue queue(self);
        bool is_last = true;
        for (std::uint32_t i = queue.prepared(); i > 0; --i) {
            io_uring_sqe& entry = queue.from_last(is_last ? 0 : queue.prepared() - i);
            const std::uint32_t slot = self->operations.slot_of(entry.user_data);
            if (slot == OperationTable::no_slot || !wanted(self->operations.at(slot))) {
                is_last = false;
                continue;
            }
            self->operations.withdraw(slot);
            if (is_last) {
                queue.remove_last();
                continue;
            }
            // Another operation was prepared after it, so its place stays occupied.
            std::memset(&entry, 0, sizeof entry);
            entry.opcode = IORING_OP_NOP;
            entry.fd = -1;
            entry.user_data = internal_mark;
        }
    }
    self->operations.drop_withdrawn();
}

} // namespace

bool check_chain_complete(RingObject* self, std::uint64_t key) noexcept {
    const auto is_open = [self, key] {
        SubmissionQueue queue(self);
        // The operation before the one with this key, or else the last.
        const std::uint32_t unseen = queue.unseen();
        const std::uint32_t own =
            key != 0 && unseen > 0 && queue.from_last(0).user_data == key ? 1 : 0;
        return unseen > own &&
               (queue.from_last(own).flags & (IOSQE_IO_LINK | IOSQE_IO_HARDLINK)) != 0;
    };
    if (is_open()) {
        PyErr_SetString(
            PyExc_ValueError,
            "the last prepared operation is linked to a next one; prepare that, or remove "
            "all prepared operations with discard()");
        return false;
    }
    return true;
}

void fetch_deferred(RingObject* self) noexcept {
    if ((SubmissionQueue(self).flags() & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN)) != 0) {
        (void)enter(self, {.events = true}); // a failure leaves completions missing
        reap(self);
    }
}

Py_ssize_t submit(RingObject* self) noexcept {
    if (!check_chain_complete(self)) {
        return -1;
    }
    return submit_until(self, [] { return std::size_t{0}; }, std::nullopt);
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
        // With nothing in flight, only messages from other rings can arrive.
        return std::min(wanted - have, possible == 0 && deadline ? 1 : possible);
    };
    return submit_until(self, missing, deadline);
}

bool wait_for_batch(RingObject* self, ReadBatch& batch, std::size_t keep) noexcept {
    const auto missing = [&] { return batch.in_flight > keep ? batch.in_flight - keep : 0; };
    return missing() == 0 || submit_until(self, missing, std::nullopt) >= 0;
}

void end_batch(RingObject* self, ReadBatch& batch) noexcept {
    Ref raised = take_exception();
    const auto usable = [self] { return self->life == RingObject::Life::open && is_mapped(self); };
    const auto of_batch = [&](const Operation& each) { return each.batch == &batch; };
    if (usable()) {
        withdraw(self, [&](const Operation& each) {
            batch.in_flight -= of_batch(each) ? 1 : 0;
            return of_batch(each);
        });
    }
    // If the ring was closed meanwhile, the closing has ended them.
    while (batch.in_flight > 0 && usable()) {
        cancel_each(self, of_batch);
        if (!await_end(self, [&] { return batch.in_flight; })) {
            abandon(self); // some code has closed the ring's descriptor
        }
    }
    if (raised) {
        raise_exception(std::move(raised));
    }
}

bool wait_for_operation(RingObject* self, PyObject* tag) noexcept {
    // Nothing ran since the preparation, so the operation is the last one prepared.
    const std::uint32_t slot = self->operations.slot_with(tag);
    const std::uint64_t key = slot == OperationTable::no_slot ? 0 : self->operations.key(slot);
    if (!check_chain_complete(self, key)) {
        return false;
    }
    // A signal handler may take its completion, and then none will arrive.
    const auto missing = [&]() -> std::size_t {
        return has_finished(self, tag) || self->operations.slot_of(key) == OperationTable::no_slot
                   ? 0
                   : 1;
    };
    // Another operation's completion may end a wait. The missing number is then computed again.
    while (missing() > 0) {
        const std::size_t known = self->finished.size();
        const auto one_more = [&]() -> std::size_t {
            return self->finished.size() > known ? 0 : missing();
        };
        if (submit_until(self, one_more, std::nullopt) < 0) {
            return false;
        }
    }
    return true;
}

void end_operation(RingObject* self, std::uint64_t key) noexcept {
    Ref raised = take_exception();
    const auto usable = [self] { return self->life == RingObject::Life::open && is_mapped(self); };
    const auto left = [&]() -> std::size_t {
        const std::uint32_t slot = self->operations.slot_of(key);
        return slot != OperationTable::no_slot && !self->operations.at(slot).done ? 1 : 0;
    };
    const auto wanted = [&](const Operation& each) {
        const std::uint32_t slot = self->operations.slot_of(key);
        return slot != OperationTable::no_slot && &each == &self->operations.at(slot);
    };
    if (usable()) {
        withdraw(self, wanted);
    }
    while (usable() && left() > 0) {
        cancel_each(self, wanted);
        if (!await_end(self, left)) {
            abandon(self);
        }
    }
    if (raised) {
        raise_exception(std::move(raised));
    }
}

std::size_t discard_prepared(RingObject* self) noexcept {
    std::size_t count = 0;
    {
        SubmissionQueue queue(self);
        while (const io_uring_sqe* last = queue.last()) {
            const std::uint32_t slot = self->operations.slot_of(last->user_data);
            queue.remove_last();
            if (slot == OperationTable::no_slot) {
                continue;
            }
            if (ReadBatch* batch = self->operations.at(slot).batch) {
                --batch->in_flight;
                batch->discarded = true;
            }
            self->operations.withdraw(slot);
            ++count;
        }
        self->unsubmitted_bytes = 0;
    }
    self->operations.drop_withdrawn();
    return count;
}

bool drain(RingObject* self) noexcept {
    Ref raised = take_exception();
    discard_prepared(self);
    bool answers = true;
    for (reap(self); answers && self->operations.in_flight() > 0 && is_mapped(self);) {
        constexpr std::uint32_t all = IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL;
        if (!request_cancel_now(self, 0, all) || has_kernel_thread(self)) {
            // Kernels before 5.19 do not support "any": cancels one by one.
            cancel_each(self, [](const Operation& /*each*/) { return true; });
        }
        answers = await_end(self, [self] { return self->operations.in_flight(); });
    }
    if (raised) {
        raise_exception(std::move(raised));
    }
    return self->operations.in_flight() == 0;
}

std::int64_t monotonic_now() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * nanoseconds_per_second + now.tv_nsec;
}

bool make_room(RingObject* self, std::size_t count) noexcept {
    {
        const SubmissionQueue queue(self);
        if (queue.free() >= count) {
            return true;
        }
        if (!has_kernel_thread(self) || queue.unseen() + count > queue.size()) {
            return false;
        }
    }
    // The kernel thread frees places some time after it has taken the operations.
    while (SubmissionQueue(self).free() < count) {
        const unsigned asleep = SubmissionQueue(self).flags() & IORING_SQ_NEED_WAKEUP;
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

PyMethodDef submission_methods[] = {
    {"submit", &submit_method, METH_NOARGS,
     "Submit the prepared operations; returns their number.\n\n"
     "Does not wait. Raises UringError if the kernel refuses; operations that it has not taken "
     "stay prepared."},
    {"discard", &discard, METH_NOARGS,
     "Remove the operations that are prepared and not submitted; returns their number."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace penstock::python::uring
