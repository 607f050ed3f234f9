#include "buffer_ring.hpp"

#include "parameters.hpp"
#include "ring.hpp"

#include <cerrno>
#include <cstring>

#include <structmember.h>
#include <sys/mman.h>

namespace penstock::python::uring {

namespace {

BufferRingObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<BufferRingObject*>(object);
}

std::size_t entries_size(const BufferRingObject* self) noexcept {
    return self->count * sizeof(io_uring_buf);
}

/// Appends the buffer to those of the kernel, which sees it after `publish`.
void give(BufferRingObject* self, std::uint32_t index) noexcept {
    io_uring_buf& place = self->entries->bufs[self->given & (self->count - 1)];
    place.addr = reinterpret_cast<std::uintptr_t>(self->memory + index * self->size);
    place.len = static_cast<std::uint32_t>(self->size);
    place.bid = static_cast<std::uint16_t>(index);
    ++self->given;
}

void publish(BufferRingObject* self) noexcept {
    io_uring_smp_store_release(&self->entries->tail, static_cast<std::uint16_t>(self->given));
}

/// Unregisters the buffers. False if only the ring's thread could do that.
bool unregister(BufferRingObject* self) noexcept {
    RingObject* ring = self->ring;
    if (ring == nullptr || ring->life == RingObject::Life::closed) {
        return true;
    }
    return ring->life != RingObject::Life::abandoned && !is_forked(ring) &&
           ring->owner == PyThread_get_thread_ident() &&
           io_uring_unregister_buf_ring(&ring->ring, self->group) == 0;
}

void free_memory(BufferRingObject* self) noexcept {
    if (self->entries != nullptr) {
        munmap(self->entries, entries_size(self));
        self->entries = nullptr;
    }
    if (self->memory != nullptr) {
        munmap(self->memory, self->count * self->size);
        self->memory = nullptr;
    }
    PyMem_Free(self->lent);
    self->lent = nullptr;
}

/// The buffer that a completion's flags name. -1 with an exception set if the program does not have
/// it.
std::int64_t lent_buffer(const BufferRingObject* self, PyObject* flags_object) noexcept {
    const unsigned long flags = PyLong_AsUnsignedLong(flags_object);
    if (flags == static_cast<unsigned long>(-1) && PyErr_Occurred() != nullptr) {
        return -1;
    }
    if ((flags & IORING_CQE_F_BUFFER) == 0) {
        PyErr_Format(PyExc_ValueError, "the completion's flags, %lu, name no buffer", flags);
        return -1;
    }
    const unsigned long index = flags >> IORING_CQE_BUFFER_SHIFT;
    if (self->memory == nullptr) {
        PyErr_SetString(PyExc_ValueError, "the buffer ring is closed");
        return -1;
    }
    if (index >= self->count || self->lent[index] == 0) {
        PyErr_Format(PyExc_ValueError,
                     "buffer %lu is not the program's: it was already taken, or another "
                     "buffer ring's completion named it",
                     index);
        return -1;
    }
    return static_cast<std::int64_t>(index);
}

PyObject* take(PyObject* object, PyObject* const* arguments, Py_ssize_t count) {
    BufferRingObject* self = self_of(object);
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "take() takes the result and the flags of a completion");
        return nullptr;
    }
    const Py_ssize_t length = PyLong_AsSsize_t(arguments[0]);
    if (length == -1 && PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    const std::int64_t index = lent_buffer(self, arguments[1]);
    if (index < 0) {
        return nullptr;
    }
    if (length < 0 || static_cast<std::size_t>(length) > self->size) {
        return PyErr_Format(PyExc_ValueError,
                            "the result, %zd, is not a length within a buffer of %zu bytes", length,
                            self->size);
    }
    PyObject* bytes = PyBytes_FromStringAndSize(
        reinterpret_cast<const char*>(self->memory + static_cast<std::size_t>(index) * self->size),
        length);
    if (bytes != nullptr) {
        self->lent[index] = 0;
        --self->with_program;
        give(self, static_cast<std::uint32_t>(index));
        publish(self);
    }
    return bytes;
}

PyObject* close_ring(PyObject* object, PyObject* /*unused*/) {
    BufferRingObject* self = self_of(object);
    if (self->memory == nullptr) {
        Py_RETURN_NONE;
    }
    if (self->ring->life == RingObject::Life::open && !is_forked(self->ring)) {
        if (!check_usable(self->ring)) {
            return nullptr;
        }
        // An operation in flight owns a reference in addition to the caller's. Counts them in the
        // operation table.
        for (std::uint32_t slot = 0; slot < self->ring->operations.slots(); ++slot) {
            const Operation& operation = self->ring->operations.at(slot);
            if (operation.used && operation.buffers == self) {
                PyErr_SetString(PyExc_BufferError,
                                "operations in flight use the buffer ring; cancel them first");
                return nullptr;
            }
        }
        if (!unregister(self)) {
            return raise_error(self->ring->state, EBUSY,
                               "the kernel does not unregister the buffer ring");
        }
    }
    if (self->ring->life != RingObject::Life::abandoned) {
        free_memory(self);
    }
    Py_RETURN_NONE;
}

int ring_traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(reinterpret_cast<PyObject*>(self_of(object)->ring));
    return 0;
}

void ring_dealloc(PyObject* object) {
    BufferRingObject* self = self_of(object);
    PyTypeObject* type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (self->memory != nullptr && unregister(self)) {
        free_memory(self);
    } // otherwise the kernel may still write there: the memory is never freed
    Py_XDECREF(reinterpret_cast<PyObject*>(self->ring));
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

PyObject* available(PyObject* object, void* /*unused*/) {
    const BufferRingObject* self = self_of(object);
    return PyLong_FromUnsignedLong(self->count - self->with_program);
}

PyMethodDef ring_methods[] = {
    {"take", as_function(&take), METH_FASTCALL,
     "take(result, flags)\n--\n\n"
     "A copy of a completion's bytes; returns its buffer to the kernel.\n\n"
     "ValueError if the flags name no buffer, or a buffer that was already taken."},
    {"close", &close_ring, METH_NOARGS,
     "Unregister and free the buffers. BufferError while operations in flight use them."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef ring_members[] = {
    {"count", T_UINT, offsetof(BufferRingObject, count), READONLY, "Number of buffers."},
    {"size", T_PYSSIZET, offsetof(BufferRingObject, size), READONLY, "Bytes of a buffer."},
    {"group", T_USHORT, offsetof(BufferRingObject, group), READONLY, "Its buffer group."},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef ring_attributes[] = {
    {"available", &available, nullptr, "The number of buffers that the kernel has.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot ring_slots[] = {
    {Py_tp_doc, const_cast<char*>("Buffers from which the kernel picks when data arrives.\n\n"
                                  "Made by UringCtx.register_buffer_ring().")},
    {Py_tp_dealloc, reinterpret_cast<void*>(&ring_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&ring_traverse)},
    {Py_tp_methods, ring_methods},
    {Py_tp_members, ring_members},
    {Py_tp_getset, ring_attributes},
    {0, nullptr},
};

PyType_Spec ring_spec = {
    .name = "penstock._uring.BufferRing",
    .basicsize = sizeof(BufferRingObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = ring_slots,
};

void* map_memory(std::size_t size) noexcept {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
}

} // namespace

PyObject* make_buffer_ring(RingObject* ring, std::uint32_t count, std::size_t size,
                           std::uint16_t group) noexcept {
    auto* self = PyObject_GC_New(BufferRingObject, ring->state->buffer_ring_type);
    if (self == nullptr) {
        return nullptr;
    }
    // From here on the deallocator cleans up. The object is tracked once it is complete: Python
    // code that runs meanwhile must not find it.
    self->ring = nullptr;
    self->count = count;
    self->size = size;
    self->given = 0;
    self->with_program = 0;
    self->group = group;
    self->entries = static_cast<io_uring_buf_ring*>(map_memory(entries_size(self)));
    self->memory = static_cast<std::byte*>(map_memory(count * size));
    self->lent = static_cast<unsigned char*>(PyMem_Calloc(count, 1));
    const Ref owned(as_object(self));
    if (!check_usable(ring)) { // allocating the object may have run Python code
        return nullptr;
    }
    if (self->entries == nullptr || self->memory == nullptr || self->lent == nullptr) {
        return PyErr_NoMemory();
    }
    io_uring_buf_reg registration{};
    registration.ring_addr = reinterpret_cast<std::uintptr_t>(self->entries);
    registration.ring_entries = count;
    registration.bgid = group;
    const int result = io_uring_register_buf_ring(&ring->ring, &registration, 0);
    if (result < 0) {
        return raise_error(ring->state, -result,
                           result == -EEXIST
                               ? "buffer group %u is registered already"
                               : "the kernel does not register buffer group %u; Linux 5.19 can",
                           static_cast<unsigned>(group));
    }
    self->ring = reinterpret_cast<RingObject*>(Py_NewRef(as_object(ring)));
    for (std::uint32_t i = 0; i < count; ++i) {
        give(self, i);
    }
    publish(self);
    PyObject_GC_Track(as_object(self));
    return Py_NewRef(owned.get());
}

void lend(BufferRingObject* buffers, std::uint32_t index) noexcept {
    if (buffers->lent != nullptr && index < buffers->count && buffers->lent[index] == 0) {
        buffers->lent[index] = 1;
        ++buffers->with_program;
    }
}

bool check_belongs(const BufferRingObject* buffers, const RingObject* ring) noexcept {
    if (buffers->memory == nullptr || buffers->ring != ring) {
        PyErr_SetString(PyExc_ValueError,
                        buffers->memory == nullptr
                            ? "the buffer ring is closed"
                            : "the buffer ring is registered with another UringCtx");
        return false;
    }
    return true;
}

bool add_buffer_ring_type(PyObject* module, ModuleState* state) {
    state->buffer_ring_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &ring_spec, nullptr));
    return state->buffer_ring_type != nullptr &&
           PyModule_AddType(module, state->buffer_ring_type) == 0;
}

} // namespace penstock::python::uring
