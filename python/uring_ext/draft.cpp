#include "draft.hpp"

#include "buffer_pool.hpp"
#include "buffer_ring.hpp"

#include <cerrno>
#include <cstring>

namespace penstock::python::uring {

namespace {

/// The limit of one transfer, see read(2).
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

/// An automatic tag: a number that no operation in flight has.
Ref make_ticket(RingObject* self, Py_hash_t& hash) noexcept {
    for (;;) {
        Ref ticket(PyLong_FromUnsignedLongLong(self->next_ticket++));
        hash = ticket ? PyObject_Hash(ticket.get()) : -1;
        if (!ticket || (self->operations.find(ticket.get(), hash) == OperationTable::no_slot)) {
            return PyErr_Occurred() == nullptr ? std::move(ticket) : Ref();
        }
    }
}

/// A pool's buffer is registered if the pool is.
bool take_pool_buffer(RingObject* self, Draft& draft, PyObject* object) noexcept {
    BufferPoolObject* pool = pool_of(object);
    if (pool->wants_registration && self->pool == nullptr && self->registered.empty() &&
        !(check_usable(self) && register_pool(self, pool))) {
        return false;
    }
    if (PyObject_GetBuffer(object, &draft.holdings.view, PyBUF_WRITABLE) < 0) {
        return false;
    }
    draft.point_to(draft.holdings.view.buf, static_cast<std::size_t>(draft.holdings.view.len));
    draft.pool = pool; // the view keeps it alive
    draft.entry.buffer = static_cast<std::uint16_t>(index_of(object));
    return check_length(draft.holdings.view.len);
}

/// Whether the range lies within the registered buffer of its index. The kernel would only return
/// EFAULT.
bool check_registered(const RingObject* self, unsigned index, std::uint64_t address,
                      std::size_t length) noexcept {
    const std::size_t registered =
        self->pool != nullptr ? self->pool->count : self->registered.size();
    if (index >= registered) {
        PyErr_Format(PyExc_ValueError, "there is no registered buffer %u: %zu are registered",
                     index, registered);
        return false;
    }
    std::uintptr_t begin = 0;
    std::size_t size = 0;
    if (self->pool != nullptr) {
        const iovec part = part_of(self->pool, index);
        begin = reinterpret_cast<std::uintptr_t>(part.iov_base);
        size = part.iov_len;
    } else {
        begin = reinterpret_cast<std::uintptr_t>(self->registered[index].buf);
        size = static_cast<std::size_t>(self->registered[index].len);
    }
    if (address < begin || address + length > begin + size) {
        PyErr_Format(
            PyExc_ValueError,
            "the buffer does not lie within the registered buffer %u; pass that buffer or a "
            "memoryview of a part of it",
            index);
        return false;
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

bool check_draft(RingObject* self, const Draft& draft) noexcept {
    const Entry& entry = draft.entry;
    if (draft.fixed && draft.holdings.vectors) {
        for (const iovec& part : draft.holdings.vectors->parts) {
            if (!check_registered(self, entry.buffer,
                                  reinterpret_cast<std::uintptr_t>(part.iov_base), part.iov_len)) {
                return false;
            }
        }
    } else if (draft.fixed && !check_registered(self, entry.buffer, entry.address, entry.length)) {
        return false;
    }
    return !draft.buffers ||
           check_belongs(reinterpret_cast<BufferRingObject*>(draft.buffers.get()), self);
}

bool check_room(RingObject* self, std::size_t count) noexcept {
    if (make_room(self, count)) {
        return true;
    }
    const auto [size, room] = [self] {
        const SubmissionQueue queue(self);
        return std::pair(queue.size(), queue.free());
    }();
    if (count == 1) {
        raise_error(
            self->state, EBUSY,
            "the submission queue is full: %u operations are prepared; submit() them first, "
            "or make the ring with more entries",
            size);
    } else {
        raise_error(self->state, EBUSY,
                    "%zu operations do not fit: the submission queue has room for %u of %u; "
                    "submit() first, or make the ring with more entries",
                    count, room, size);
    }
    return false;
}

PyObject* commit(RingObject* self, Draft& draft, const Options& options) noexcept {
    if (options.skip_success && draft.yields_fd) {
        PyErr_SetString(PyExc_ValueError,
                        "skip_success would lose the descriptor that this operation opens");
        return nullptr;
    }
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
    // Reading the arguments and comparing the tag may have run Python code. From here on only the
    // failing path runs any.
    if (!check_usable(self) || !check_draft(self, draft) || !check_room(self, 1)) {
        return nullptr;
    }
    const std::uint32_t slot = self->operations.add(tag.get(), hash);
    if (slot == OperationTable::no_slot) {
        return nullptr;
    }
    place(self, draft, options, slot);
    return tag.release();
}

Operation& place(RingObject* self, Draft& draft, const Options& options,
                 std::uint32_t slot) noexcept {
    Entry& entry = draft.entry;
    if (draft.pool != nullptr && draft.pool == self->pool) {
        if (entry.opcode == IORING_OP_READ) {
            entry.opcode = IORING_OP_READ_FIXED;
        } else if (entry.opcode == IORING_OP_WRITE) {
            entry.opcode = IORING_OP_WRITE_FIXED;
        }
    }
    const bool by_index = entry.opcode == IORING_OP_READ_FIXED ||
                          entry.opcode == IORING_OP_WRITE_FIXED || draft.fixed || draft.buffers;
    if (!by_index) {
        entry.buffer = 0;
    }
    entry.flags |= options.flags;
    entry.user_data = self->operations.key(slot);
    std::memcpy(SubmissionQueue(self).append(), &entry, sizeof entry);
    self->unsubmitted_bytes += entry.length;
    Operation& operation = self->operations.start(slot);
    operation.holdings = std::move(draft.holdings);
    operation.buffers = reinterpret_cast<BufferRingObject*>(draft.buffers.release());
    operation.fills_bytes = draft.fills_bytes;
    operation.yields_fd = draft.yields_fd;
    operation.skip_success = options.skip_success;
    return operation;
}

Reservation::~Reservation() {
    for (const std::uint64_t key : keys_) {
        const std::uint32_t slot = ring_->operations.slot_of(key);
        if (slot != OperationTable::no_slot) {
            ring_->operations.withdraw(slot);
        }
    }
    if (!keys_.empty()) {
        Ref raised = take_exception();
        ring_->operations.drop_withdrawn();
        if (raised) {
            raise_exception(std::move(raised));
        }
    }
}

bool Reservation::reserve(std::size_t count) noexcept {
    try {
        keys_.reserve(count);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
    return true;
}

PyObject* Reservation::add(PyObject* tag) noexcept {
    OperationTable& operations = ring_->operations;
    Py_hash_t hash = 0;
    Ref kept;
    if (tag == nullptr || tag == Py_None) {
        kept = make_ticket(ring_, hash);
    } else if (operations.check_free(tag, hash)) {
        kept = Ref::borrow(tag);
    }
    // A ring that was abandoned meanwhile has dropped its operations for good.
    if (!kept || !check_usable(ring_)) {
        return nullptr;
    }
    const std::uint32_t slot = operations.add(kept.get(), hash);
    if (slot == OperationTable::no_slot) {
        return nullptr;
    }
    keys_.push_back(operations.key(slot)); // `reserve` has allocated this
    return kept.release();
}

bool Reservation::check_reserved() noexcept {
    for (const std::uint64_t key : keys_) {
        if (ring_->operations.slot_of(key) == OperationTable::no_slot) {
            PyErr_SetString(PyExc_RuntimeError, "a reserved user_data was lost");
            return false;
        }
    }
    return true;
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
            PyErr_Format(PyExc_ValueError, "%ld is not an index of a registered file", index);
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

} // namespace penstock::python::uring
