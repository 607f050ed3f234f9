// Methods that prepare or run many operations in one call.

#include "draft.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace penstock::python::uring {

namespace {

RingObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<RingObject*>(object);
}

/// A sequence of `count` items. Empty for None. False with an exception set.
bool read_sequence(PyObject* object, const char* name, Py_ssize_t count, Ref& sequence) noexcept {
    if (object == nullptr || object == Py_None) {
        return true;
    }
    // A copy: comparing tags may run Python code that changes the list.
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
    Reservation reservation(self);
    if (!reservation.reserve(static_cast<std::size_t>(count))) {
        return nullptr;
    }
    for (Py_ssize_t i = 0; i < count; ++i) {
        const Ref tag(reservation.add(PyTuple_GET_ITEM(tags.get(), i)));
        if (!tag) {
            return nullptr;
        }
    }
    Draft draft(IORING_OP_NOP);
    draft.entry.fd = -1;
    // Each operation starts with the same draft, which owns nothing.
    if (!reservation.commit([&draft](std::size_t) -> Draft& { return draft; }, Options{})) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

/// The parameters of the reads or writes of one file.
struct Transfers {
    Ref buffers; ///< empty when `size` is given
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

/// Converts the operations of one call, without their tags. False with an exception set.
bool read_drafts(RingObject* self, const Transfers& transfers, PyObject* fd, const Options& options,
                 bool reads, std::vector<Draft>& drafts) noexcept {
    Draft file(reads ? IORING_OP_READ : IORING_OP_WRITE);
    if (!take_fd(file, fd, options)) {
        return false;
    }
    const Py_ssize_t count = PyTuple_GET_SIZE(transfers.offsets.get());
    try {
        drafts.reserve(static_cast<std::size_t>(count));
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < count; ++i) {
        Draft& draft = drafts.emplace_back(file.entry.opcode);
        draft.entry.fd = file.entry.fd;
        PyObject* buffer = transfers.size != nullptr ? transfers.size
                                                     : PyTuple_GET_ITEM(transfers.buffers.get(), i);
        const bool plain = (options.flags & IOSQE_FIXED_FILE) == 0;
        if (!(reads ? take_target(self, draft, buffer) : take_source(self, draft, buffer)) ||
            !take_offset(draft, PyTuple_GET_ITEM(transfers.offsets.get(), i)) ||
            (plain && !check_alignment(self, draft))) {
            return false;
        }
    }
    return true;
}

PyObject* prep_transfer_many(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                             PyObject* keywords, bool reads) noexcept {
    RingObject* self = self_of(object);
    PrepareParameters<3> parameters{Name::fd, reads ? Name::buffers : Name::data, Name::offsets};
    Options options;
    Transfers transfers;
    std::vector<Draft> drafts;
    Reservation reservation(self);
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
    if (!reservation.reserve(static_cast<std::size_t>(number)) ||
        !read_drafts(self, transfers, parameters[0], options, reads, drafts)) {
        return nullptr;
    }
    Ref tags(PyList_New(number));
    if (!tags) {
        return nullptr;
    }
    PyObject_GC_UnTrack(tags.get()); // comparing tags may run Python code that could find the list
    for (Py_ssize_t i = 0; i < number; ++i) {
        PyObject* tag =
            reservation.add(transfers.tags ? PyTuple_GET_ITEM(transfers.tags.get(), i) : nullptr);
        if (tag == nullptr) {
            return nullptr;
        }
        PyList_SET_ITEM(tags.get(), i, tag);
    }
    if (!reservation.commit([&drafts](std::size_t i) -> Draft& { return drafts[i]; }, options)) {
        return nullptr;
    }
    PyObject_GC_Track(tags.get());
    return tags.release();
}

template <bool reads>
PyObject* prep_many(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                    PyObject* keywords) {
    return prep_transfer_many(object, arguments, count, keywords, reads);
}

/// The converted arguments of `read_offsets`.
struct BatchRequest {
    std::uint32_t size = 0;
    int fd = -1;
    Options options;
    std::vector<std::uint64_t> offsets;
};

bool read_request(RingObject* self, PyObject* const* arguments, Py_ssize_t count,
                  PyObject* keywords, BatchRequest& request) noexcept {
    Parameters<4> parameters{Name::fd, Name::block_size, Name::offsets, Name::fixed_file};
    Ref offsets;
    if (!parameters.parse(self->state, "read_offsets", arguments, count, keywords, 3) ||
        !read_sequence(parameters[2], "offsets", -1, offsets)) {
        return false;
    }
    if (!offsets || !PyLong_Check(parameters[1])) {
        PyErr_SetString(PyExc_TypeError, "read_offsets() needs a size and a sequence of offsets");
        return false;
    }
    const int fixed = parameters[3] != nullptr ? PyObject_IsTrue(parameters[3]) : 0;
    if (fixed < 0) {
        return false;
    }
    request.options.flags = fixed > 0 ? IOSQE_FIXED_FILE : 0;
    Draft draft(IORING_OP_READ);
    if (!take_fd(draft, parameters[0], request.options) ||
        !take_target(self, draft, parameters[1])) {
        return false;
    }
    request.fd = draft.entry.fd;
    request.size = draft.entry.length;
    const Py_ssize_t number = PyTuple_GET_SIZE(offsets.get());
    try {
        request.offsets.reserve(static_cast<std::size_t>(number));
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < number; ++i) {
        if (!take_offset(draft, PyTuple_GET_ITEM(offsets.get(), i)) ||
            (fixed == 0 && !check_alignment(self, draft))) {
            return false;
        }
        request.offsets.push_back(draft.entry.offset);
    }
    return true;
}

/// Queues one read of a batch. False with an exception set.
bool queue_read(RingObject* self, ReadBatch& batch, const BatchRequest& request,
                std::uint32_t index) noexcept {
    Draft draft(IORING_OP_READ);
    draft.holdings.bytes = self->recycled.take(request.size).release();
    if (draft.holdings.bytes == nullptr) {
        return false;
    }
    draft.point_to(PyBytes_AS_STRING(draft.holdings.bytes), request.size);
    draft.entry.fd = request.fd;
    draft.entry.offset = request.offsets[index];
    // Waiting for room may have run Python code.
    if (!check_usable(self) || !check_chain_complete(self) || !check_room(self, 1)) {
        return false;
    }
    const std::uint32_t slot = self->operations.add(nullptr, 0);
    if (slot == OperationTable::no_slot) {
        return false;
    }
    Operation& operation = place(self, draft, request.options, slot);
    operation.batch = &batch;
    operation.batch_index = index;
    ++batch.in_flight;
    return true;
}

/// Reads everything into the batch's list. False with an exception set; operations may then still
/// be in flight.
bool run_batch(RingObject* self, ReadBatch& batch, const BatchRequest& request) noexcept {
    const std::size_t most = self->ring.sq.ring_entries;
    for (std::size_t i = 0; i < request.offsets.size() && batch.error == 0 && !batch.discarded;
         ++i) {
        if ((batch.in_flight == most && !wait_for_batch(self, batch, most / 2)) ||
            !queue_read(self, batch, request, static_cast<std::uint32_t>(i))) {
            return false;
        }
    }
    if (!wait_for_batch(self, batch, 0)) {
        return false;
    }
    if (batch.error != 0) {
        raise_error(self->state, batch.error, "the read at offset %lld failed: %s",
                    static_cast<long long>(request.offsets[batch.failed_index]),
                    std::strerror(batch.error));
    } else if (batch.discarded) {
        raise_error(self->state, ECANCELED,
                    "discard() was called during the batch and removed some of its reads");
    } else if (batch.filled < request.offsets.size()) {
        check_usable(self); // an operation is only lost when the ring is closed
    }
    return PyErr_Occurred() == nullptr;
}

PyObject* read_offsets(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                       PyObject* keywords) {
    RingObject* self = self_of(object);
    BatchRequest request;
    // Submits prepared operations first. Refuses an open chain of them.
    if (!check_usable(self) || !read_request(self, arguments, count, keywords, request) ||
        !check_usable(self) || submit(self) < 0) {
        return nullptr;
    }
    Ref list(PyList_New(static_cast<Py_ssize_t>(request.offsets.size())));
    if (!list) {
        return nullptr;
    }
    // Untracked until it is full: no other code may find it before.
    PyObject_GC_UnTrack(list.get());
    ReadBatch batch{.list = list.get()};
    if (!run_batch(self, batch, request)) {
        end_batch(self, batch);
        return nullptr;
    }
    PyObject_GC_Track(list.get());
    return list.release();
}

} // namespace

PyMethodDef batch_methods[] = {
    {"prep_nop_many", &prep_nop_many, METH_O,
     "prep_nop_many(user_data)\n--\n\n"
     "Prepare an operation that does nothing for each item of `user_data`. After an exception\n"
     "none is prepared."},
    {"prep_read_many", as_function(&prep_many<true>), METH_FASTCALL | METH_KEYWORDS,
     "prep_read_many(fd, buffers, offsets, user_data=None, **options)\n--\n\n"
     "Prepare a read at each of `offsets`, into the buffer at the same index of `buffers`, or of\n"
     "the size `buffers`. Returns the user_data of each. After an exception none is prepared."},
    {"prep_write_many", as_function(&prep_many<false>), METH_FASTCALL | METH_KEYWORDS,
     "prep_write_many(fd, data, offsets, user_data=None, **options)\n--\n\n"
     "Prepare a write at each of `offsets`, of the buffer at the same index of `data`. Returns\n"
     "the user_data of each. After an exception none is prepared."},
    {"read_offsets", as_function(&read_offsets), METH_FASTCALL | METH_KEYWORDS,
     "read_offsets(fd, block_size, offsets, fixed_file=False)\n--\n\n"
     "Read `block_size` bytes at each of `offsets` and return them as a list of bytes.\n\n"
     "Also submits the prepared operations; completions of other operations are kept for\n"
     "completions(). There are fewer bytes at the end of the file. UringError names the first\n"
     "read that failed."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace penstock::python::uring
