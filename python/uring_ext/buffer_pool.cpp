#include "buffer_pool.hpp"

#include "parameters.hpp"

#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>

#include <structmember.h>
#include <sys/mman.h>
#include <unistd.h>

namespace penstock::python::uring {

namespace {

/// One buffer of a pool. Operations in flight export it, and it cannot be given back then.
struct PoolBufferObject {
    PyObject_HEAD BufferPoolObject* pool; ///< owned
    std::size_t index;
    std::size_t size;
    std::byte* own; ///< a mapping of its own where the pool's share is too small; else null
    std::size_t own_mapped;
    std::size_t exports;
    bool acquired;
};

BufferPoolObject* pool_self(PyObject* object) noexcept {
    return reinterpret_cast<BufferPoolObject*>(object);
}

PoolBufferObject* buffer_self(PyObject* object) noexcept {
    return reinterpret_cast<PoolBufferObject*>(object);
}

/// Whether the pool is initialised and neither closed nor cleared by the garbage collector.
bool check_open(const BufferPoolObject* pool) noexcept {
    if (pool->memory == nullptr || pool->buffers == nullptr) {
        PyErr_SetString(PyExc_ValueError, "the buffer pool is closed");
        return false;
    }
    return true;
}

/// The aligned start within a mapping, which may be larger than requested for this purpose.
std::byte* align(std::byte* mapping, std::size_t alignment) noexcept {
    return mapping + (-reinterpret_cast<std::uintptr_t>(mapping) & (alignment - 1));
}

/// The size of a mapping that leaves room for the alignment.
std::size_t slack_for(std::size_t alignment) noexcept {
    return alignment > static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) ? alignment : 0;
}

std::byte* memory_of(const PoolBufferObject* buffer) noexcept {
    const BufferPoolObject* pool = buffer->pool;
    return buffer->own != nullptr ? align(buffer->own, pool->alignment)
                                  : pool->memory + buffer->index * pool->stride;
}

/// The number of bytes from its start on that a buffer may use without a mapping of its own.
std::size_t capacity_of(const PoolBufferObject* buffer) noexcept {
    return buffer->own != nullptr ? buffer->own_mapped - slack_for(buffer->pool->alignment)
                                  : buffer->pool->stride;
}

void unmap_own(PoolBufferObject* buffer) noexcept {
    if (std::byte* own = std::exchange(buffer->own, nullptr)) {
        munmap(own, buffer->own_mapped);
    }
}

void unmap(BufferPoolObject* pool) noexcept {
    if (pool->mapping != nullptr) {
        munmap(pool->mapping, pool->mapped);
        pool->mapping = nullptr;
        pool->memory = nullptr;
    }
}

int buffer_get(PyObject* object, Py_buffer* view, int flags) {
    PoolBufferObject* self = buffer_self(object);
    view->obj = nullptr;
    if (!check_open(self->pool) ||
        PyBuffer_FillInfo(view, object, memory_of(self), static_cast<Py_ssize_t>(self->size), 0,
                          flags) < 0) {
        return -1;
    }
    ++self->exports;
    ++self->pool->exports;
    return 0;
}

void buffer_release(PyObject* object, Py_buffer* /*view*/) {
    PoolBufferObject* self = buffer_self(object);
    --self->exports;
    --self->pool->exports;
}

PyObject* give_back(PyObject* object, PyObject* /*unused*/) {
    PoolBufferObject* self = buffer_self(object);
    if (self->exports > 0) {
        return PyErr_Format(PyExc_BufferError,
                            "buffer %zu is still in use: %zu operations or memoryviews hold it",
                            self->index, self->exports);
    }
    self->acquired = false;
    Py_RETURN_NONE;
}

Py_ssize_t buffer_length(PyObject* object) {
    return static_cast<Py_ssize_t>(buffer_self(object)->size);
}

PyObject* buffer_repr(PyObject* object) {
    const PoolBufferObject* self = buffer_self(object);
    return PyUnicode_FromFormat("<PoolBuffer %zu of %zu, %zu bytes>", self->index,
                                self->pool->count, self->size);
}

PyObject* buffer_index(PyObject* object, void* /*unused*/) {
    return PyLong_FromSize_t(buffer_self(object)->index);
}

PyObject* buffer_enter(PyObject* object, PyObject* /*unused*/) {
    return Py_NewRef(object);
}

PyObject* buffer_exit(PyObject* object, PyObject* const* /*arguments*/, Py_ssize_t /*count*/) {
    return give_back(object, nullptr);
}

int buffer_traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(buffer_self(object)->pool);
    return 0;
}

void buffer_dealloc(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    unmap_own(buffer_self(object));
    Py_XDECREF(as_object(buffer_self(object)->pool));
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

PyMethodDef buffer_methods[] = {
    {"release", &give_back, METH_NOARGS,
     "Return the buffer to its pool. BufferError while operations or memoryviews hold it."},
    {"__enter__", &buffer_enter, METH_NOARGS, nullptr},
    {"__exit__", as_function(&buffer_exit), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef buffer_attributes[] = {
    {"index", &buffer_index, nullptr, "Its index in the pool.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot buffer_slots[] = {
    {Py_tp_doc, const_cast<char*>("A buffer of a BufferPool: writable memory.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(&buffer_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&buffer_traverse)},
    {Py_tp_repr, reinterpret_cast<void*>(&buffer_repr)},
    {Py_tp_methods, buffer_methods},
    {Py_tp_getset, buffer_attributes},
    {Py_bf_getbuffer, reinterpret_cast<void*>(&buffer_get)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(&buffer_release)},
    {Py_sq_length, reinterpret_cast<void*>(&buffer_length)},
    {0, nullptr},
};

PyType_Spec buffer_spec = {
    .name = "penstock._uring.PoolBuffer",
    .basicsize = sizeof(PoolBufferObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = buffer_slots,
};

bool parse_size(PyObject* object, const char* name, std::size_t& size) noexcept {
    const Py_ssize_t value = PyLong_AsSsize_t(object);
    if (value == -1 && PyErr_Occurred() != nullptr) {
        return false;
    }
    constexpr Py_ssize_t most = Py_ssize_t{1} << 40;
    if (value < 1 || value > most) {
        PyErr_Format(PyExc_ValueError, "%s is %zd; it must be from 1 to %zd", name, value, most);
        return false;
    }
    size = static_cast<std::size_t>(value);
    return true;
}

/// Owns the parts of a pool until all of them are made.
struct Shape {
    std::size_t count = 0;
    std::size_t size = 0;
    std::size_t alignment = 4096;
    std::size_t stride = 0;
    std::byte* mapping = nullptr;
    std::size_t mapped = 0;
    int registered = 0;
};

bool read_shape(PyObject* arguments, PyObject* keywords, Shape& shape) noexcept {
    static const char* names[] = {"count", "size", "alignment", "registered", nullptr};
    PyObject* count = nullptr;
    PyObject* size = nullptr;
    PyObject* alignment = nullptr;
    if (PyArg_ParseTupleAndKeywords(arguments, keywords, "OO|$Op", const_cast<char**>(names),
                                    &count, &size, &alignment, &shape.registered) == 0 ||
        !parse_size(count, "count", shape.count) || !parse_size(size, "size", shape.size) ||
        (alignment != nullptr && !parse_size(alignment, "alignment", shape.alignment))) {
        return false;
    }
    constexpr std::size_t most_aligned = std::size_t{1} << 30;
    if (!std::has_single_bit(shape.alignment) || shape.alignment > most_aligned) {
        PyErr_Format(PyExc_ValueError, "alignment is %zu; it must be a power of two up to %zu",
                     shape.alignment, most_aligned);
        return false;
    }
    constexpr std::size_t most_registered = 16384; // IORING_MAX_REG_BUFFERS
    if (shape.registered != 0 && shape.count > most_registered) {
        PyErr_Format(PyExc_ValueError, "count is %zu; a ring registers at most %zu buffers",
                     shape.count, most_registered);
        return false;
    }
    shape.stride = (shape.size + shape.alignment - 1) / shape.alignment * shape.alignment;
    if (shape.stride > std::numeric_limits<Py_ssize_t>::max() / 2 / shape.count) {
        PyErr_Format(PyExc_ValueError, "%zu buffers of %zu bytes exceed the address space",
                     shape.count, shape.size);
        return false;
    }
    return true;
}

bool map(ModuleState* state, Shape& shape) noexcept {
    shape.mapped = shape.stride * shape.count + slack_for(shape.alignment);
    void* mapping =
        mmap(nullptr, shape.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        raise_error(state, errno, "no memory for %zu buffers of %zu bytes", shape.count,
                    shape.size);
        return false;
    }
    shape.mapping = static_cast<std::byte*>(mapping);
    return true;
}

/// Makes the pool's buffers: a tuple that the collector does not track yet, because Python code
/// that the collector runs could find it half filled.
Ref make_buffers(BufferPoolObject* self, std::size_t count, std::size_t size) noexcept {
    Ref buffers(PyTuple_New(static_cast<Py_ssize_t>(count)));
    if (!buffers) {
        return buffers;
    }
    PyObject_GC_UnTrack(buffers.get());
    for (std::size_t i = 0; i < count; ++i) {
        auto* buffer = PyObject_GC_New(PoolBufferObject, self->state->pool_buffer_type);
        if (buffer == nullptr) {
            return Ref();
        }
        buffer->pool = reinterpret_cast<BufferPoolObject*>(Py_NewRef(as_object(self)));
        buffer->index = i;
        buffer->size = size;
        buffer->own = nullptr;
        buffer->own_mapped = 0;
        buffer->exports = 0;
        buffer->acquired = false;
        PyTuple_SET_ITEM(buffers.get(), static_cast<Py_ssize_t>(i), as_object(buffer));
    }
    return buffers;
}

int pool_init(PyObject* object, PyObject* arguments, PyObject* keywords) {
    BufferPoolObject* self = pool_self(object);
    Shape shape;
    if (!read_shape(arguments, keywords, shape) || !map(self->state, shape)) {
        return -1;
    }
    Ref buffers = make_buffers(self, shape.count, shape.size);
    // Checked last: reading the arguments and collecting garbage may have run this function.
    if (!buffers || self->count != 0) {
        munmap(shape.mapping, shape.mapped);
        if (buffers) {
            PyErr_SetString(PyExc_RuntimeError,
                            "a BufferPool is initialised once; make a new one instead");
        }
        return -1;
    }
    self->count = shape.count;
    self->size = shape.size;
    self->alignment = shape.alignment;
    self->stride = shape.stride;
    self->mapping = shape.mapping;
    self->mapped = shape.mapped;
    self->memory = align(self->mapping, self->alignment);
    self->wants_registration = shape.registered != 0;
    self->buffers = buffers.release();
    for (std::size_t i = 0; i < self->count; ++i) {
        PyObject_GC_Track(PyTuple_GET_ITEM(self->buffers, static_cast<Py_ssize_t>(i)));
    }
    PyObject_GC_Track(self->buffers);
    return 0;
}

PyObject* pool_new(PyTypeObject* type, PyObject* /*arguments*/, PyObject* /*keywords*/) {
    PyObject* object = type->tp_alloc(type, 0);
    if (object != nullptr) {
        pool_self(object)->state = state_of(type);
    }
    return object;
}

PyObject* acquire(PyObject* object, PyObject* /*unused*/) {
    BufferPoolObject* self = pool_self(object);
    if (!check_open(self)) {
        return nullptr;
    }
    for (std::size_t i = 0; i < self->count; ++i) {
        const std::size_t index = (self->search_from + i) % self->count;
        PyObject* item = PyTuple_GET_ITEM(self->buffers, static_cast<Py_ssize_t>(index));
        PoolBufferObject* buffer = buffer_self(item);
        if (!buffer->acquired && buffer->exports == 0) {
            buffer->acquired = true;
            self->search_from = index + 1;
            return Py_NewRef(item);
        }
    }
    return PyErr_Format(
        PyExc_BufferError,
        "all %zu buffers of the pool are in use; release one, or make the pool larger",
        self->count);
}

/// Whether nothing exports the pool's buffer, so that its memory may move. False with an exception
/// set.
bool check_unused(const BufferPoolObject* pool, const PoolBufferObject* buffer) noexcept {
    if (pool->registrations > 0) {
        PyErr_SetString(
            PyExc_BufferError,
            "the pool is registered with a ring; unregister_buffers() or close that first");
        return false;
    }
    if (buffer->exports > 0) {
        PyErr_Format(PyExc_BufferError,
                     "buffer %zu is still in use: %zu operations or memoryviews hold it",
                     buffer->index, buffer->exports);
        return false;
    }
    return true;
}

PyObject* resize(PyObject* object, PyObject* const* arguments, Py_ssize_t count) {
    BufferPoolObject* self = pool_self(object);
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "resize() takes a buffer's index and a size");
        return nullptr;
    }
    const Py_ssize_t index = PyLong_AsSsize_t(arguments[0]);
    std::size_t size = 0;
    if ((index == -1 && PyErr_Occurred() != nullptr) || !parse_size(arguments[1], "size", size) ||
        !check_open(self)) {
        return nullptr;
    }
    if (index < 0 || static_cast<std::size_t>(index) >= self->count) {
        return PyErr_Format(PyExc_IndexError, "the pool has %zu buffers", self->count);
    }
    PoolBufferObject* buffer = buffer_self(PyTuple_GET_ITEM(self->buffers, index));
    if (!check_unused(self, buffer)) {
        return nullptr;
    }
    if (size > capacity_of(buffer)) {
        const std::size_t mapped = size + slack_for(self->alignment);
        void* mapping =
            mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapping == MAP_FAILED) {
            return raise_error(self->state, errno, "no memory for a buffer of %zu bytes", size);
        }
        std::memcpy(align(static_cast<std::byte*>(mapping), self->alignment), memory_of(buffer),
                    buffer->size);
        unmap_own(buffer);
        buffer->own = static_cast<std::byte*>(mapping);
        buffer->own_mapped = mapped;
    } else if (size > buffer->size) {
        std::memset(memory_of(buffer) + buffer->size, 0, size - buffer->size);
    }
    buffer->size = size;
    Py_RETURN_NONE;
}

PyObject* pool_close(PyObject* object, PyObject* /*unused*/) {
    BufferPoolObject* self = pool_self(object);
    if (self->exports > 0) {
        return PyErr_Format(PyExc_BufferError,
                            "the pool is still in use: operations or memoryviews hold its buffers "
                            "%zu times",
                            self->exports);
    }
    if (self->registrations > 0) {
        PyErr_SetString(
            PyExc_BufferError,
            "the pool is registered with a ring; unregister_buffers() or close that first");
        return nullptr;
    }
    unmap(self);
    for (std::size_t i = 0; self->buffers != nullptr && i < self->count; ++i) {
        unmap_own(buffer_self(PyTuple_GET_ITEM(self->buffers, static_cast<Py_ssize_t>(i))));
    }
    // The buffers own the pool. Without this only the garbage collector would free them.
    Py_CLEAR(self->buffers);
    Py_RETURN_NONE;
}

PyObject* pool_enter(PyObject* object, PyObject* /*unused*/) {
    return check_open(pool_self(object)) ? Py_NewRef(object) : nullptr;
}

PyObject* pool_exit(PyObject* object, PyObject* const* /*arguments*/, Py_ssize_t /*count*/) {
    return pool_close(object, nullptr);
}

Py_ssize_t pool_length(PyObject* object) {
    return static_cast<Py_ssize_t>(pool_self(object)->count);
}

PyObject* pool_item(PyObject* object, Py_ssize_t index) {
    BufferPoolObject* self = pool_self(object);
    if (!check_open(self)) {
        return nullptr;
    }
    if (index < 0 || static_cast<std::size_t>(index) >= self->count) {
        return PyErr_Format(PyExc_IndexError, "the pool has %zu buffers", self->count);
    }
    return Py_NewRef(PyTuple_GET_ITEM(self->buffers, index));
}

PyObject* pool_available(PyObject* object, void* /*unused*/) {
    const BufferPoolObject* self = pool_self(object);
    std::size_t available = 0;
    for (std::size_t i = 0; self->buffers != nullptr && i < self->count; ++i) {
        const PoolBufferObject* buffer =
            buffer_self(PyTuple_GET_ITEM(self->buffers, static_cast<Py_ssize_t>(i)));
        available += !buffer->acquired && buffer->exports == 0 ? 1 : 0;
    }
    return PyLong_FromSize_t(available);
}

PyObject* pool_closed(PyObject* object, void* /*unused*/) {
    return PyBool_FromLong(pool_self(object)->memory == nullptr);
}

PyObject* pool_repr(PyObject* object) {
    const BufferPoolObject* self = pool_self(object);
    return PyUnicode_FromFormat("<BufferPool of %zu buffers of %zu bytes%s>", self->count,
                                self->size, self->memory == nullptr ? ", closed" : "");
}

int pool_traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(pool_self(object)->buffers);
    return 0;
}

int pool_clear(PyObject* object) {
    Py_CLEAR(pool_self(object)->buffers);
    return 0;
}

void pool_dealloc(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Py_CLEAR(pool_self(object)->buffers);
    // Nothing exports a buffer any more: an exported one would own the pool.
    unmap(pool_self(object));
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

PyMethodDef pool_methods[] = {
    {"acquire", &acquire, METH_NOARGS,
     "A free buffer, which the caller owns until its release(). BufferError if all are in use."},
    {"resize", as_function(&resize), METH_FASTCALL,
     "resize(index, size)\n--\n\n"
     "Change the size of one buffer. Its contents are kept as far as they fit, and zeros "
     "follow.\n\n"
     "BufferError while operations or memoryviews hold it, or a ring has registered the pool."},
    {"close", &pool_close, METH_NOARGS,
     "Free the memory. BufferError while operations, memoryviews or a ring hold it."},
    {"__enter__", &pool_enter, METH_NOARGS, nullptr},
    {"__exit__", as_function(&pool_exit), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef pool_members[] = {
    {"size", T_PYSSIZET, offsetof(BufferPoolObject, size), READONLY,
     "Bytes of a buffer that was not resized."},
    {"alignment", T_PYSSIZET, offsetof(BufferPoolObject, alignment), READONLY,
     "Every buffer's address is a multiple of it."},
    {"registered", T_BOOL, offsetof(BufferPoolObject, wants_registration), READONLY,
     "Whether a ring registers the pool when it first uses it."},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef pool_attributes[] = {
    {"available", &pool_available, nullptr, "The number of free buffers.", nullptr},
    {"closed", &pool_closed, nullptr, "Whether the memory is freed.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot pool_slots[] = {
    {Py_tp_doc,
     const_cast<char*>(
         "BufferPool(count, size, *, alignment=4096, registered=False)\n--\n\n"
         "`count` buffers of `size` bytes, aligned for O_DIRECT.\n\n"
         "With `registered` the first ring that uses a buffer registers the pool. The kernel then\n"
         "does not pin its pages for each operation; they count against RLIMIT_MEMLOCK.\n"
         "Buffers are taken with acquire() or by index. One thread at a time.")},
    {Py_tp_new, reinterpret_cast<void*>(&pool_new)},
    {Py_tp_init, reinterpret_cast<void*>(&pool_init)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&pool_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&pool_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&pool_clear)},
    {Py_tp_repr, reinterpret_cast<void*>(&pool_repr)},
    {Py_tp_methods, pool_methods},
    {Py_tp_members, pool_members},
    {Py_tp_getset, pool_attributes},
    {Py_sq_length, reinterpret_cast<void*>(&pool_length)},
    {Py_sq_item, reinterpret_cast<void*>(&pool_item)},
    {0, nullptr},
};

PyType_Spec pool_spec = {
    .name = "penstock._uring.BufferPool",
    .basicsize = sizeof(BufferPoolObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = pool_slots,
};

} // namespace

BufferPoolObject* pool_of(PyObject* buffer) noexcept {
    return buffer_self(buffer)->pool;
}

std::size_t index_of(PyObject* buffer) noexcept {
    return buffer_self(buffer)->index;
}

iovec part_of(const BufferPoolObject* pool, std::size_t index) noexcept {
    const PoolBufferObject* buffer =
        buffer_self(PyTuple_GET_ITEM(pool->buffers, static_cast<Py_ssize_t>(index)));
    return {.iov_base = memory_of(buffer), .iov_len = buffer->size};
}

bool add_buffer_pool_types(PyObject* module, ModuleState* state) {
    state->pool_buffer_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &buffer_spec, nullptr));
    state->buffer_pool_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &pool_spec, nullptr));
    return state->pool_buffer_type != nullptr && state->buffer_pool_type != nullptr &&
           PyModule_AddType(module, state->pool_buffer_type) == 0 &&
           PyModule_AddType(module, state->buffer_pool_type) == 0;
}

} // namespace penstock::python::uring
