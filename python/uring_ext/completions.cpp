// Processing completions: ends operations, and makes tuples for the program.

#include "buffer_ring.hpp"
#include "parameters.hpp"
#include "ring.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>

#include <unistd.h>

#include <penstock/io/files/uring_compat.hpp>

namespace penstock::python::uring {

namespace {

/// Stores the result of a batch's operation at its index of the list.
void complete_in_batch(RingObject* self, Operation& operation, std::int32_t result) noexcept {
    ReadBatch& batch = *operation.batch;
    --batch.in_flight;
    if (result < 0) {
        if (batch.error == 0) {
            batch.error = -result;
            batch.failed_index = operation.batch_index;
        }
        return;
    }
    PyObject* bytes = std::exchange(operation.holdings.bytes, nullptr);
    if (!self->recycled.fit(bytes, result)) {
        PyErr_Clear();
        Py_DECREF(bytes);
        batch.error = ENOMEM;
        return;
    }
    PyList_SET_ITEM(batch.list, operation.batch_index, bytes);
    ++batch.filled;
}

/// Processes one completion. False if there is no memory to keep it.
bool process_completion(RingObject* self, const io_uring_cqe* entry) noexcept {
    const std::uint64_t key = entry->user_data;
    const std::uint32_t flags = entry->flags;
    const std::uint32_t head = *self->ring.cq.khead + 1;
    const auto consume = [&] { io_uring_smp_store_release(self->ring.cq.khead, head); };
    if ((key & internal_mark) == internal_mark) {
        consume();
        return true;
    }
    std::uint32_t slot = self->operations.slot_of(key);
    if (slot != OperationTable::no_slot && self->operations.at(slot).done) {
        slot = OperationTable::no_slot;
    }
    // The result of a message is its sender's.
    const std::int32_t result =
        slot == OperationTable::no_slot ? entry->res : io::uring::result_of(entry->res);
    Finished* finished = nullptr;
    const bool last = (flags & IORING_CQE_F_MORE) == 0;
    const bool reported = slot == OperationTable::no_slot ||
                          (self->operations.at(slot).batch == nullptr &&
                           (!self->operations.at(slot).skip_success || result < 0));
    if (reported) {
        try {
            finished = &self->finished.emplace_back();
        } catch (const std::bad_alloc&) {
            return false;
        }
        finished->result = result;
        finished->flags = flags;
    }
    consume();
    if (slot == OperationTable::no_slot) {
        finished->message = key & ~message_mark;
        return true;
    }
    Operation& operation = self->operations.at(slot);
    if (operation.buffers != nullptr && (flags & IORING_CQE_F_BUFFER) != 0) {
        lend(operation.buffers, flags >> IORING_CQE_BUFFER_SHIFT);
    }
    if (finished != nullptr) {
        finished->yields_fd = operation.yields_fd && result >= 0;
        finished->tag = Py_NewRef(operation.tag);
        if (operation.fills_bytes && result >= 0) {
            finished->bytes = std::exchange(operation.holdings.bytes, nullptr);
        }
    }
    if (operation.batch != nullptr) {
        complete_in_batch(self, operation, result);
    }
    if (last && finished != nullptr) {
        finished->slot = slot;
        drop(self->operations.finish(slot));
    } else if (last) {
        drop(self->operations.remove(slot));
    }
    return true;
}

using Place = std::deque<Finished>::iterator;

/// The first completion, or the first one with this tag (compared by identity).
Place find_finished(RingObject* self, PyObject* wanted) noexcept {
    return wanted == nullptr
               ? self->finished.begin()
               : std::find_if(self->finished.begin(), self->finished.end(),
                              [wanted](const Finished& each) { return each.tag == wanted; });
}

/// The tuple of the first completion, or of the first completion with the tag `wanted`. Null if
/// there is none. Null with an exception set loses no completion.
PyObject* deliver_one(RingObject* self, PyObject* wanted) noexcept {
    // This may collect garbage, which may run any code. So the completion is looked up afterwards.
    Ref tuple(PyTuple_New(3));
    Place place = find_finished(self, wanted);
    if (!tuple || place == self->finished.end()) {
        return nullptr;
    }
    Ref tag;
    if (place->tag == nullptr) {
        tag = Ref(PyStructSequence_New(self->state->message_type));
        place = find_finished(self, wanted);
        if (!tag || place == self->finished.end()) {
            return nullptr;
        }
    }
    Finished& found = *place;
    if ((found.tag == nullptr) != static_cast<bool>(tag)) {
        return nullptr; // taken meanwhile; the next call looks again
    }
    Ref flags(PyLong_FromUnsignedLong(found.flags));
    Ref result;
    if (found.bytes != nullptr) {
        if (!self->recycled.fit(found.bytes, found.result)) {
            return nullptr;
        }
        result = Ref::borrow(found.bytes);
    } else {
        result = Ref(PyLong_FromLong(found.result));
    }
    if (found.tag == nullptr) {
        Ref value(PyLong_FromUnsignedLongLong(found.message));
        if (!value) {
            return nullptr;
        }
        PyStructSequence_SetItem(tag.get(), 0, value.release());
    } else {
        tag = Ref::borrow(found.tag);
    }
    if (!flags || !result) {
        return nullptr;
    }
    PyTuple_SET_ITEM(tuple.get(), 0, tag.release());
    PyTuple_SET_ITEM(tuple.get(), 1, result.release());
    PyTuple_SET_ITEM(tuple.get(), 2, flags.release());
    const Finished taken = found;
    if (wanted == nullptr) {
        self->finished.pop_front();
    } else {
        self->finished.erase(place);
    }
    if (taken.slot != OperationTable::no_slot) {
        drop(self->operations.remove(taken.slot));
    }
    Py_XDECREF(taken.tag);
    Py_XDECREF(taken.bytes);
    return tuple.release();
}

/// A list of the available completions.
PyObject* deliver(RingObject* self, std::size_t limit) noexcept {
    if (!check_usable(self)) {
        return nullptr;
    }
    if (self->finished.size() < limit) {
        fetch_deferred(self);
    }
    const auto count = static_cast<Py_ssize_t>(std::min(self->finished.size(), limit));
    Ref list(PyList_New(count));
    if (!list) {
        return nullptr;
    }
    // Untracked until it is full: Python code that runs meanwhile must not find it.
    PyObject_GC_UnTrack(list.get());
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* completion = deliver_one(self, nullptr);
        if (completion == nullptr) {
            if (i == 0 && PyErr_Occurred() != nullptr) {
                return nullptr;
            }
            PyErr_Clear();
            return PyList_GetSlice(list.get(), 0, i);
        }
        PyList_SET_ITEM(list.get(), i, completion);
    }
    PyObject_GC_Track(list.get());
    return list.release();
}

RingObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<RingObject*>(object);
}

/// Reads the parameters `count=1, timeout=None`.
struct Wait {
    std::size_t count = 1;
    std::optional<std::int64_t> deadline;
};

bool parse_timeout(PyObject* timeout, Wait& wait) noexcept {
    if (timeout == nullptr || timeout == Py_None) {
        return true;
    }
    const double seconds = PyFloat_AsDouble(timeout);
    if (seconds == -1.0 && PyErr_Occurred() != nullptr) {
        return false;
    }
    if (std::isnan(seconds) || seconds < 0) {
        PyErr_Format(PyExc_ValueError, "timeout is %R; it must be 0 or more seconds, or None",
                     timeout);
        return false;
    }
    constexpr double longest = 1e9; // seconds: thirty years
    wait.deadline = monotonic_now() +
                    static_cast<std::int64_t>(std::min(seconds, longest) * nanoseconds_per_second);
    return true;
}

bool parse_wait(RingObject* self, const char* function, PyObject* const* arguments,
                Py_ssize_t count, PyObject* keywords, Wait& wait) noexcept {
    Parameters<2> parsed{Name::count, Name::timeout};
    if (!parsed.parse(self->state, function, arguments, count, keywords, 0)) {
        return false;
    }
    if (parsed[0] != nullptr) {
        const Py_ssize_t number = PyLong_AsSsize_t(parsed[0]);
        if (number == -1 && PyErr_Occurred() != nullptr) {
            return false;
        }
        if (number < 0) {
            PyErr_Format(PyExc_ValueError, "count is %zd; it must be 0 or more", number);
            return false;
        }
        wait.count = static_cast<std::size_t>(number);
    }
    return parse_timeout(parsed[1], wait);
}

PyObject* submit_and_wait_method(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                                 PyObject* keywords) {
    RingObject* self = self_of(object);
    Wait wait;
    if (!parse_wait(self, "submit_and_wait", arguments, count, keywords, wait) ||
        !check_usable(self)) {
        return nullptr;
    }
    const Py_ssize_t submitted = submit_and_wait(self, wait.count, wait.deadline);
    return submitted < 0 ? nullptr : PyLong_FromSsize_t(submitted);
}

PyObject* wait_completions(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                           PyObject* keywords) {
    RingObject* self = self_of(object);
    Wait wait;
    if (!parse_wait(self, "wait_completions", arguments, count, keywords, wait) ||
        !check_usable(self) || submit_and_wait(self, wait.count, wait.deadline) < 0) {
        return nullptr;
    }
    return deliver(self, std::numeric_limits<std::size_t>::max());
}

/// Iterator: the next completion, or null at the end.
PyObject* next_completion(RingObject* self) noexcept {
    if (self->finished.empty()) {
        fetch_deferred(self);
    }
    PyObject* completion = check_usable(self) ? deliver_one(self, nullptr) : nullptr;
    if (completion == nullptr && PyErr_Occurred() == nullptr) {
        Py_RETURN_NONE;
    }
    return completion;
}

PyObject* wait_completion(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                          PyObject* keywords) {
    RingObject* self = self_of(object);
    Parameters<1> parsed{Name::timeout};
    Wait wait;
    if (!parsed.parse(self->state, "wait_completion", arguments, count, keywords, 0) ||
        !parse_timeout(parsed[0], wait) || !check_usable(self) ||
        submit_and_wait(self, 1, wait.deadline) < 0) {
        return nullptr;
    }
    return next_completion(self);
}

PyObject* peek_completion(PyObject* object, PyObject* /*unused*/) {
    RingObject* self = self_of(object);
    if (!check_usable(self)) {
        return nullptr;
    }
    reap(self);
    return check_usable(self) ? next_completion(self) : nullptr;
}

/// The next completion of one operation. Others are kept.
PyObject* wait_for(PyObject* object, PyObject* tag) {
    RingObject* self = self_of(object);
    if (!check_usable(self) || !wait_for_operation(self, tag)) {
        return nullptr;
    }
    PyObject* completion = deliver_one(self, tag);
    if (completion == nullptr && PyErr_Occurred() == nullptr) {
        PyErr_SetString(PyExc_RuntimeError,
                        "the operation was discarded, or its completion taken, by code that ran "
                        "during the wait");
    }
    return completion;
}

/// Ends the operation with this tag (compared by identity) and drops its completions.
PyObject* end_operation_method(PyObject* object, PyObject* tag) {
    RingObject* self = self_of(object);
    if (!is_mapped(self) || !check_usable(self)) {
        PyErr_Clear(); // closing the ring has ended it
        Py_RETURN_NONE;
    }
    const std::uint32_t slot = self->operations.slot_with(tag);
    if (slot != OperationTable::no_slot) {
        end_operation(self, self->operations.key(slot));
    }
    for (Place place = find_finished(self, tag); place != self->finished.end();
         place = find_finished(self, tag)) {
        const Finished dropped = *place;
        self->finished.erase(place);
        if (dropped.yields_fd) {
            close(dropped.result);
        }
        if (dropped.slot != OperationTable::no_slot) {
            drop(self->operations.remove(dropped.slot));
        }
        Py_XDECREF(dropped.tag);
        Py_XDECREF(dropped.bytes);
    }
    Py_RETURN_NONE;
}

PyObject* completions(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                      PyObject* keywords) {
    RingObject* self = self_of(object);
    Parameters<1> parsed{Name::limit};
    if (!parsed.parse(self->state, "completions", arguments, count, keywords, 0) ||
        !check_usable(self)) {
        return nullptr;
    }
    std::size_t limit = std::numeric_limits<std::size_t>::max();
    if (parsed[0] != nullptr && parsed[0] != Py_None) {
        const Py_ssize_t number = PyLong_AsSsize_t(parsed[0]);
        if (number == -1 && PyErr_Occurred() != nullptr) {
            return nullptr;
        }
        if (number < 0) {
            return PyErr_Format(PyExc_ValueError, "limit is %zd; it must be 0 or more", number);
        }
        limit = static_cast<std::size_t>(number);
    }
    reap(self);
    return deliver(self, limit);
}

} // namespace

bool has_finished(const RingObject* self, PyObject* tag) noexcept {
    return std::any_of(self->finished.begin(), self->finished.end(),
                       [tag](const Finished& each) { return each.tag == tag; });
}

void reap(RingObject* self) noexcept {
    const io_uring_cq& queue = self->ring.cq;
    // The head is read again each time: dropping a completion may run Python code that takes
    // completions, closes the ring or forks.
    while (is_mapped(self)) {
        const std::uint32_t head = *queue.khead;
        if (head == io_uring_smp_load_acquire(queue.ktail) ||
            !process_completion(self, &queue.cqes[head & queue.ring_mask])) {
            return;
        }
    }
}

PyMethodDef completion_methods[] = {
    {"submit_and_wait", as_function(&submit_and_wait_method), METH_FASTCALL | METH_KEYWORDS,
     "submit_and_wait(count=1, timeout=None)\n--\n\n"
     "Submit, and wait until `count` completions are available; returns the number submitted.\n\n"
     "The wait also ends after `timeout` seconds, and when nothing is in flight any more.\n"
     "Signal handlers run during the wait; if one raises, the wait ends and no completion is "
     "lost."},
    {"wait_completions", as_function(&wait_completions), METH_FASTCALL | METH_KEYWORDS,
     "wait_completions(count=1, timeout=None)\n--\n\n"
     "submit_and_wait(), then completions(), in one call."},
    {"wait_completion", as_function(&wait_completion), METH_FASTCALL | METH_KEYWORDS,
     "wait_completion(timeout=None)\n--\n\n"
     "Submit, and wait for one completion: (user_data, result, flags).\n\n"
     "None after `timeout` seconds, or if nothing is in flight."},
    {"peek_completion", &peek_completion, METH_NOARGS,
     "The next available completion, (user_data, result, flags), or None. Does not wait."},
    {"_wait_for", &wait_for, METH_O,
     "Submit, and wait for the next completion of the operation with this user_data object.\n"
     "Completions of others are kept."},
    {"_end", &end_operation_method, METH_O,
     "Discard or cancel the operation with this user_data object, wait for its end, and drop its\n"
     "completions."},
    {"completions", as_function(&completions), METH_FASTCALL | METH_KEYWORDS,
     "completions(limit=None)\n--\n\n"
     "The available completions, at most `limit`, as a list of (user_data, result, flags).\n\n"
     "Does not wait. `result` is what the system call would return, or a negative errno if it\n"
     "failed; for a read by size it is the bytes. With CQE_F_MORE in `flags` the operation\n"
     "continues and has further completions."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace penstock::python::uring
