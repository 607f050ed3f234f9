#include "uring_draft.hpp"

#include "uring_buffer_pool.hpp"
#include "uring_buffer_ring.hpp"

#include <cstring>

namespace penstock::python {

namespace {

/// read(2): as much as one transfer moves.
constexpr Py_ssize_t longest_transfer = 0x7FFFF000;

bool check_length(Py_ssize_t length) noexcept {
    if (length < 0 || length > longest_transfer) {
        PyErr_Format(PyExc_ValueError,
                     "%zd bytes: one operation moves from 0 to %zd; split the transfer", length,
                     longest_transfer);
        return false;
    }
    return true;
}

/// An automatic tag: a number that nothing in flight has.
Ref make_ticket(RingObject* self, Py_hash_t& hash) noexcept {
    for (;;) {
        Ref ticket(PyLong_FromUnsignedLongLong(self->next_ticket++));
        hash = ticket ? PyObject_Hash(ticket.get()) : -1;
        if (!ticket || (self->operations.find(ticket.get(), hash) == OperationTable::no_slot)) {
            return PyErr_Occurred() == nullptr ? std::move(ticket) : Ref();
        }
    }
}

/// A pool's buffer is the kernel's already where the pool is registered.
bool take_pool_buffer(RingObject* self, Draft& draft, PyObject* object) noexcept {
    BufferPoolObject* pool = pool_of(object);
    if (pool->wants_registration && self->pool == nullptr && self->registered.empty() &&
        !register_pool(self, pool)) {
        return false;
    }
    if (PyObject_GetBuffer(object, &draft.holdings.view, PyBUF_WRITABLE) < 0) {
        return false;
    }
    draft.point_to(draft.holdings.view.buf, static_cast<std::size_t>(draft.holdings.view.len));
    if (self->pool == pool) {
        if (draft.entry.opcode == IORING_OP_READ) {
            draft.entry.opcode = IORING_OP_READ_FIXED;
        } else if (draft.entry.opcode == IORING_OP_WRITE) {
            draft.entry.opcode = IORING_OP_WRITE_FIXED;
        }
        if (draft.entry.opcode == IORING_OP_READ_FIXED ||
            draft.entry.opcode == IORING_OP_WRITE_FIXED) {
            draft.entry.buffer = static_cast<std::uint16_t>(index_of(object));
        }
    }
    return true;
}

} // namespace

bool read_options(PyObject* const* given, Options& options) noexcept {
    options.tag = given[0] == Py_None ? nullptr : given[0];
    constexpr std::array<std::uint8_t, 5> bits{
        IOSQE_IO_LINK, IOSQE_IO_HARDLINK, IOSQE_IO_DRAIN, IOSQE_FIXED_FILE, IOSQE_ASYNC,
    };
    for (std::size_t i = 1; i < option_names.size(); ++i) {
        if (given[i] == nullptr || given[i] == Py_False) {
            continue;
        }
        const int truth = PyObject_IsTrue(given[i]);
        if (truth < 0) {
            return false;
        }
        if (truth == 0) {
            continue;
        }
        if (i - 1 < bits.size()) {
            options.flags |= bits[i - 1];
        } else {
            options.skip_success = true;
        }
    }
    return true;
}

PyObject* commit(RingObject* self, Draft& draft, const Options& options) noexcept {
    if (options.skip_success && draft.yields_fd) {
        PyErr_SetString(PyExc_ValueError,
                        "skip_success would lose the descriptor that this operation opens");
        return nullptr;
    }
    // What was read from the arguments so far may have run Python code; so may comparing the tag.
    Ref tag;
    Py_hash_t hash = 0;
    if (options.tag == nullptr) {
        tag = make_ticket(self, hash);
        if (!tag) {
            return nullptr;
        }
    } else {
        tag = Ref::borrow(options.tag);
        if (!self->operations.check_free(options.tag, hash)) {
            return nullptr;
        }
    }
    if (!check_usable(self)) {
        return nullptr;
    }
    return enqueue(self, draft, options, tag.get(), hash) != nullptr ? tag.release() : nullptr;
}

Operation* enqueue(RingObject* self, Draft& draft, const Options& options, PyObject* tag,
                   Py_hash_t hash) noexcept {
    io_uring_sqe* entry = next_entry(self);
    if (entry == nullptr) {
        return nullptr;
    }
    const std::uint32_t slot = self->operations.add(tag, hash);
    if (slot == OperationTable::no_slot) {
        --self->ring.sq.sqe_tail;
        return nullptr;
    }
    draft.entry.flags |= options.flags;
    draft.entry.user_data = self->operations.key(slot);
    std::memcpy(entry, &draft.entry, sizeof draft.entry);
    self->unsubmitted_bytes += draft.entry.length;
    Operation& operation = self->operations.at(slot);
    operation.holdings = std::move(draft.holdings);
    operation.buffers = reinterpret_cast<BufferRingObject*>(draft.buffers.release());
    operation.fills_bytes = draft.fills_bytes;
    operation.yields_fd = draft.yields_fd;
    operation.skip_success = options.skip_success;
    return &operation;
}

bool take_target(RingObject* self, Draft& draft, PyObject* target) noexcept {
    if (PyLong_Check(target)) {
        const Py_ssize_t size = PyLong_AsSsize_t(target);
        if ((size == -1 && PyErr_Occurred() != nullptr) || !check_length(size)) {
            return false;
        }
        PyObject* bytes = self->recycled.take(size).release();
        draft.holdings.bytes = bytes;
        if (bytes == nullptr) {
            return false;
        }
        draft.point_to(PyBytes_AS_STRING(bytes), static_cast<std::size_t>(size));
        draft.fills_bytes = true;
        return true;
    }
    if (Py_IS_TYPE(target, self->state->pool_buffer_type)) {
        return take_pool_buffer(self, draft, target);
    }
    if (Py_IS_TYPE(target, self->state->buffer_ring_type)) {
        auto* buffers = reinterpret_cast<BufferRingObject*>(target);
        if (!check_belongs(buffers, self)) {
            return false;
        }
        draft.buffers = Ref::borrow(target);
        draft.entry.flags |= IOSQE_BUFFER_SELECT;
        draft.entry.buffer = group_of(buffers);
        return true;
    }
    if (PyObject_GetBuffer(target, &draft.holdings.view, PyBUF_WRITABLE) < 0) {
        if (PyErr_ExceptionMatches(PyExc_BufferError) != 0) {
            PyErr_Format(PyExc_BufferError,
                         "cannot read into this %s: it is read-only or not contiguous; pass a "
                         "bytearray, a writable memoryview, a BufferPool's buffer or a size",
                         Py_TYPE(target)->tp_name);
        }
        return false;
    }
    draft.point_to(draft.holdings.view.buf, static_cast<std::size_t>(draft.holdings.view.len));
    return check_length(draft.holdings.view.len);
}

bool take_source(RingObject* self, Draft& draft, PyObject* source) noexcept {
    if (PyBytes_CheckExact(source)) {
        draft.holdings.bytes = Py_NewRef(source);
        draft.point_to(PyBytes_AS_STRING(source), static_cast<std::size_t>(Py_SIZE(source)));
        return check_length(Py_SIZE(source));
    }
    if (Py_IS_TYPE(source, self->state->pool_buffer_type)) {
        return take_pool_buffer(self, draft, source);
    }
    if (PyObject_GetBuffer(source, &draft.holdings.view, PyBUF_SIMPLE) < 0) {
        return false;
    }
    draft.point_to(draft.holdings.view.buf, static_cast<std::size_t>(draft.holdings.view.len));
    return check_length(draft.holdings.view.len);
}

bool take_fd(Draft& draft, PyObject* object, const Options& options) noexcept {
    if ((options.flags & IOSQE_FIXED_FILE) != 0) {
        const long index = PyLong_AsLong(object);
        if (index == -1 && PyErr_Occurred() != nullptr) {
            return false;
        }
        if (index < 0 || index > std::numeric_limits<int>::max()) {
            PyErr_Format(PyExc_ValueError, "%ld is no index of a registered file", index);
            return false;
        }
        draft.entry.fd = static_cast<int>(index);
        return true;
    }
    draft.entry.fd = PyObject_AsFileDescriptor(object);
    return draft.entry.fd >= 0;
}

bool take_offset(Draft& draft, PyObject* object) noexcept {
    if (object == nullptr) {
        draft.entry.offset = current_position;
        return true;
    }
    const long long offset = PyLong_AsLongLong(object);
    if (offset == -1 && PyErr_Occurred() != nullptr) {
        return false;
    }
    if (offset < -1) {
        PyErr_Format(PyExc_ValueError,
                     "offset is %lld; it must be 0 or more, or -1 for the file's own position",
                     offset);
        return false;
    }
    draft.entry.offset = static_cast<std::uint64_t>(offset);
    return true;
}

bool take_flags(PyObject* object, std::uint32_t& flags) noexcept {
    flags = 0;
    if (object == nullptr) {
        return true;
    }
    const unsigned long value = PyLong_AsUnsignedLong(object);
    if (value == static_cast<unsigned long>(-1) && PyErr_Occurred() != nullptr) {
        return false;
    }
    if (value > std::numeric_limits<std::uint32_t>::max()) {
        PyErr_Format(PyExc_ValueError, "%lu does not fit into 32 bits", value);
        return false;
    }
    flags = static_cast<std::uint32_t>(value);
    return true;
}

} // namespace penstock::python
