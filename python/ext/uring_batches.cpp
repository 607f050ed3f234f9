// Many operations in one call.

#include "uring_draft.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace penstock::python {

namespace {

RingObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<RingObject*>(object);
}

/// Takes the last `count` prepared operations back.
void take_back(RingObject* self, std::size_t count) noexcept {
    io_uring_sq& queue = self->ring.sq;
    for (; count > 0; --count) {
        --queue.sqe_tail;
        const std::uint32_t slot =
            self->operations.slot_of(queue.sqes[queue.sqe_tail & queue.ring_mask].user_data);
        if (slot != OperationTable::no_slot) {
            drop(self->operations.remove(slot));
        }
    }
}

bool check_room(RingObject* self, Py_ssize_t count) noexcept {
    if (make_room(self, static_cast<std::size_t>(count))) {
        return true;
    }
    const std::uint32_t room = free_entries(self);
    raise_error(self->state, EBUSY,
                "%zd operations do not fit: the submission queue has room for %u of %u; submit() "
                "first, or make the ring with more entries",
                count, room, self->ring.sq.ring_entries);
    return false;
}

/// `tags[i]`, or null where no tags are given.
Ref tag_at(const Ref& tags, Py_ssize_t index) noexcept {
    return tags ? Ref::borrow(PySequence_Fast_GET_ITEM(tags.get(), index)) : Ref();
}

/// A sequence of `count` items; an empty reference for None. False with an exception set.
bool read_sequence(PyObject* object, const char* name, Py_ssize_t count, Ref& sequence) noexcept {
    if (object == nullptr || object == Py_None) {
        return true;
    }
    // A copy: tags may run Python code, which may change the list.
    sequence = Ref(PySequence_Tuple(object));
    if (!sequence) {
        return false;
    }
    if (count >= 0 && PyTuple_GET_SIZE(sequence.get()) != count) {
        PyErr_Format(PyExc_ValueError, "%zd offsets need as many %s, not %zd", count, name,
                     PyTuple_GET_SIZE(sequence.get()));
        return false;
    }
    return true;
}

PyObject* prep_nop_many(PyObject* object, PyObject* tags_object) {
    RingObject* self = self_of(object);
    Ref tags;
    if (!read_sequence(tags_object, "tags", -1, tags) || !check_usable(self)) {
        return nullptr;
    }
    if (!tags) {
        PyErr_SetString(PyExc_TypeError, "prep_nop_many() needs a sequence of user_data");
        return nullptr;
    }
    const Py_ssize_t count = PyTuple_GET_SIZE(tags.get());
    if (!check_room(self, count)) {
        return nullptr;
    }
    for (Py_ssize_t i = 0; i < count; ++i) {
        Draft draft(IORING_OP_NOP);
        draft.entry.fd = -1;
        Options options;
        options.tag = PyTuple_GET_ITEM(tags.get(), i);
        const Ref tag(commit(self, draft, options));
        if (!tag) {
            take_back(self, static_cast<std::size_t>(i));
            return nullptr;
        }
    }
    Py_RETURN_NONE;
}

/// The parameters of the reads or writes of one file.
struct Transfers {
    Ref buffers; ///< empty where `size` is meant
    PyObject* size = nullptr;
    Ref offsets;
    Ref tags;
};

bool read_transfers(PyObject* buffers, PyObject* offsets, PyObject* tags,
                    Transfers& transfers) noexcept {
    if (!read_sequence(offsets, "offsets", -1, transfers.offsets)) {
        return false;
    }
    if (!transfers.offsets) {
        PyErr_SetString(PyExc_TypeError, "offsets must be a sequence, not None");
        return false;
    }
    const Py_ssize_t count = PyTuple_GET_SIZE(transfers.offsets.get());
    if (PyLong_Check(buffers)) {
        transfers.size = buffers;
    } else if (!read_sequence(buffers, "buffers", count, transfers.buffers)) {
        return false;
    }
    return read_sequence(tags, "user_data", count, transfers.tags);
}

PyObject* prep_transfer_many(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                             PyObject* keywords, bool reads) noexcept {
    RingObject* self = self_of(object);
    PrepareParameters<3> parameters{Name::fd, reads ? Name::buffers : Name::data, Name::offsets};
    Options options;
    Transfers transfers;
    if (!parameters.parse(self->state, reads ? "prep_read_many" : "prep_write_many", arguments,
                          count, keywords, 3, options) ||
        !read_transfers(parameters[1], parameters[2], options.tag, transfers) ||
        !check_usable(self)) {
        return nullptr;
    }
    if (!transfers.buffers && transfers.size == nullptr) {
        PyErr_SetString(PyExc_TypeError, "the buffers must be a sequence, not None");
        return nullptr;
    }
    const Py_ssize_t number = PyTuple_GET_SIZE(transfers.offsets.get());
    if (!check_room(self, number)) {
        return nullptr;
    }
    Ref told(PyList_New(number));
    if (!told) {
        return nullptr;
    }
    const bool plain = (options.flags & IOSQE_FIXED_FILE) == 0;
    for (Py_ssize_t i = 0; i < number; ++i) {
        Draft draft(reads ? IORING_OP_READ : IORING_OP_WRITE);
        PyObject* buffer = transfers.size != nullptr ? transfers.size
                                                     : PyTuple_GET_ITEM(transfers.buffers.get(), i);
        const Ref wanted = tag_at(transfers.tags, i);
        options.tag = wanted.get() == Py_None ? nullptr : wanted.get();
        PyObject* tag = nullptr;
        if (take_fd(draft, parameters[0], options) &&
            (reads ? take_target(self, draft, buffer) : take_source(self, draft, buffer)) &&
            take_offset(draft, PyTuple_GET_ITEM(transfers.offsets.get(), i)) &&
            (!plain || check_alignment(self, draft))) {
            tag = commit(self, draft, options);
        }
        if (tag == nullptr) {
            const Ref raised = take_exception();
            take_back(self, static_cast<std::size_t>(i));
            raise_exception(Ref::borrow(raised.get()));
            return nullptr;
        }
        PyList_SET_ITEM(told.get(), i, tag);
    }
    return told.release();
}

template <bool reads>
PyObject* prep_many(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                    PyObject* keywords) {
    return prep_transfer_many(object, arguments, count, keywords, reads);
}

/// Queues one read of a batch. False with an exception set.
bool queue_read(RingObject* self, ReadBatch& batch, Draft& draft, const Options& options,
                std::uint32_t index) noexcept {
    if (!check_usable(self)) { // looking up the descriptor may have run Python code
        return false;
    }
    Operation* operation = enqueue(self, draft, options, nullptr, 0);
    if (operation == nullptr) {
        return false;
    }
    operation->fills_bytes = false; // they go into the batch's list, not into a completion
    operation->batch = &batch;
    operation->batch_index = index;
    ++batch.in_flight;
    return true;
}

PyObject* read_offsets(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                       PyObject* keywords) {
    RingObject* self = self_of(object);
    Parameters<4> parameters{Name::fd, Name::block_size, Name::offsets, Name::fixed_file};
    Ref offsets;
    Options options;
    const auto start = [&] {
        if (!parameters.parse(self->state, "read_offsets", arguments, count, keywords, 3) ||
            !read_sequence(parameters[2], "offsets", -1, offsets)) {
            return false;
        }
        if (!offsets || !PyLong_Check(parameters[1])) {
            PyErr_SetString(PyExc_TypeError,
                            "read_offsets() needs a size and a sequence of offsets");
            return false;
        }
        const int fixed = parameters[3] != nullptr ? PyObject_IsTrue(parameters[3]) : 0;
        options.flags = fixed > 0 ? IOSQE_FIXED_FILE : 0;
        // What is prepared goes first; an open chain of it is refused by this.
        return fixed >= 0 && check_usable(self) && submit(self) >= 0;
    };
    if (!start()) {
        return nullptr;
    }
    const Py_ssize_t number = PyTuple_GET_SIZE(offsets.get());
    Ref list(PyList_New(number));
    if (!list) {
        return nullptr;
    }
    // Until all its places are filled nobody may find it.
    PyObject_GC_UnTrack(list.get());
    ReadBatch batch{.list = list.get()};
    const std::size_t most = self->ring.sq.ring_entries;
    Ref raised;
    for (Py_ssize_t i = 0; i < number && batch.error == 0; ++i) {
        if (batch.in_flight == most && !wait_for_batch(self, batch, most / 2)) {
            raised = take_exception();
            break;
        }
        Draft draft(IORING_OP_READ);
        if (!take_fd(draft, parameters[0], options) || !take_target(self, draft, parameters[1]) ||
            !take_offset(draft, PyTuple_GET_ITEM(offsets.get(), i)) ||
            (options.flags == 0 && !check_alignment(self, draft)) ||
            !queue_read(self, batch, draft, options, static_cast<std::uint32_t>(i))) {
            raised = take_exception();
            break;
        }
    }
    if (!wait_for_batch(self, batch, 0) && !raised) {
        raised = take_exception();
    } else {
        PyErr_Clear(); // the first exception is the one to tell
    }
    PyObject_GC_Track(list.get());
    if (raised) {
        raise_exception(std::move(raised));
        return nullptr;
    }
    if (batch.error != 0) {
        const long long offset =
            PyLong_AsLongLong(PyTuple_GET_ITEM(offsets.get(), batch.failed_index));
        return raise_error(self->state, batch.error, "the read at offset %lld failed: %s", offset,
                           std::strerror(batch.error));
    }
    return list.release();
}

} // namespace

PyMethodDef batch_methods[] = {
    {"prep_nop_many", &prep_nop_many, METH_O,
     "prep_nop_many(user_data)\n--\n\n"
     "Prepare an operation that does nothing for each item of `user_data`: all of them, or none\n"
     "and an exception."},
    {"prep_read_many", as_function(&prep_many<true>), METH_FASTCALL | METH_KEYWORDS,
     "prep_read_many(fd, buffers, offsets, user_data=None, **options)\n--\n\n"
     "Prepare a read for each of `offsets`, into the buffer of the same place in `buffers`, or of\n"
     "the size `buffers`. Returns the user_data of each. All are prepared, or none."},
    {"prep_write_many", as_function(&prep_many<false>), METH_FASTCALL | METH_KEYWORDS,
     "prep_write_many(fd, data, offsets, user_data=None, **options)\n--\n\n"
     "Prepare a write for each of `offsets`, of the buffer of the same place in `data`. Returns\n"
     "the user_data of each. All are prepared, or none."},
    {"read_offsets", as_function(&read_offsets), METH_FASTCALL | METH_KEYWORDS,
     "read_offsets(fd, block_size, offsets, fixed_file=False)\n--\n\n"
     "Read `block_size` bytes at each of `offsets` and return them as a list of bytes.\n\n"
     "Submits what is prepared as well; completions of other operations are kept for\n"
     "completions(). Bytes are fewer at the end of the file. UringError tells the first read that\n"
     "failed."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace penstock::python
