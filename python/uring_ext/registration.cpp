// Registered files, registered buffers and buffer rings.

#include "buffer_pool.hpp"
#include "buffer_ring.hpp"
#include "draft.hpp"

#include <bit>
#include <cerrno>
#include <cstring>

#include <sys/resource.h>

namespace penstock::python::uring {

namespace {

RingObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<RingObject*>(object);
}

PyObject* refused(RingObject* self, const char* what, int result) noexcept {
    return raise_error(self->state, -result, "the kernel refused %s: %s", what,
                       std::strerror(-result));
}

bool read_count(PyObject* object, const char* name, std::uint32_t least, std::uint32_t most,
                std::uint32_t& count) noexcept {
    const long long value = PyLong_AsLongLong(object);
    if (value == -1 && PyErr_Occurred() != nullptr) {
        return false;
    }
    if (value < least || value > most) {
        PyErr_Format(PyExc_ValueError, "%s is %lld; it must be from %u to %u", name, value, least,
                     most);
        return false;
    }
    count = static_cast<std::uint32_t>(value);
    return true;
}

/// Reads the descriptors of a sequence. -1 is an empty slot.
bool read_descriptors(PyObject* object, std::vector<int>& descriptors) noexcept {
    const Ref sequence(PySequence_Fast(object, "fds must be a sequence of descriptors"));
    if (!sequence) {
        return false;
    }
    try {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); ++i) {
            const Ref item = Ref::borrow(PySequence_Fast_GET_ITEM(sequence.get(), i));
            if (PyLong_Check(item.get()) && PyLong_AsLong(item.get()) == -1) {
                if (PyErr_Occurred() != nullptr) {
                    return false;
                }
                descriptors.push_back(-1);
                continue;
            }
            const int fd = PyObject_AsFileDescriptor(item.get());
            if (fd < 0) {
                return false;
            }
            descriptors.push_back(fd);
        }
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
    return true;
}

PyObject* register_files(PyObject* object, PyObject* fds) {
    RingObject* self = self_of(object);
    std::vector<int> descriptors;
    if (!read_descriptors(fds, descriptors) || !check_usable(self)) {
        return nullptr;
    }
    if (descriptors.empty()) {
        PyErr_SetString(PyExc_ValueError,
                        "no descriptors to register; register_files_sparse() makes empty places");
        return nullptr;
    }
    const int result = io_uring_register_files(&self->ring, descriptors.data(),
                                               static_cast<unsigned>(descriptors.size()));
    if (result == -EBUSY) {
        return raise_error(self->state, EBUSY,
                           "files are registered already; update_files() changes them, "
                           "unregister_files() ends it");
    }
    if (result < 0) {
        return refused(self, "to register these files", result);
    }
    self->registered_files = static_cast<std::uint32_t>(descriptors.size());
    Py_RETURN_NONE;
}

PyObject* register_files_sparse(PyObject* object, PyObject* places) {
    RingObject* self = self_of(object);
    std::uint32_t count = 0;
    if (!read_count(places, "count", 1, 1U << 15, count) || !check_usable(self)) {
        return nullptr;
    }
    const int result = io_uring_register_files_sparse(&self->ring, count);
    if (result == -EBUSY) {
        return raise_error(self->state, EBUSY,
                           "files are registered already; unregister_files() ends it");
    }
    if (result < 0) {
        return refused(self, "to register empty places for files", result);
    }
    self->registered_files = count;
    Py_RETURN_NONE;
}

PyObject* update_files(PyObject* object, PyObject* const* arguments, Py_ssize_t count) {
    RingObject* self = self_of(object);
    std::vector<int> descriptors;
    std::uint32_t index = 0;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "update_files() takes an index and descriptors");
        return nullptr;
    }
    if (!read_count(arguments[0], "index", 0, 1U << 20, index) ||
        !read_descriptors(arguments[1], descriptors) || !check_usable(self)) {
        return nullptr;
    }
    if (descriptors.empty()) {
        Py_RETURN_NONE;
    }
    if (index + descriptors.size() > self->registered_files) {
        return PyErr_Format(PyExc_ValueError,
                            "places %u to %zu are not all registered: there are %u", index,
                            index + descriptors.size() - 1, self->registered_files);
    }
    const int result = io_uring_register_files_update(&self->ring, index, descriptors.data(),
                                                      static_cast<unsigned>(descriptors.size()));
    if (result < 0) {
        return refused(self, "to register these files", result);
    }
    if (static_cast<std::size_t>(result) != descriptors.size()) {
        return raise_error(self->state, EBADF,
                           "only %d of %zu places were changed: descriptor %d cannot be registered",
                           result, descriptors.size(),
                           descriptors[static_cast<std::size_t>(result)]);
    }
    Py_RETURN_NONE;
}

PyObject* unregister_files(PyObject* object, PyObject* /*unused*/) {
    RingObject* self = self_of(object);
    if (!check_usable(self)) {
        return nullptr;
    }
    const int result = io_uring_unregister_files(&self->ring);
    if (result < 0) {
        return raise_error(self->state, -result, "no files are registered");
    }
    self->registered_files = 0;
    Py_RETURN_NONE;
}

bool check_none_registered(const RingObject* self) noexcept {
    if (self->pool == nullptr && self->registered.empty()) {
        return true;
    }
    raise_error(self->state, EBUSY, "buffers are registered already; unregister_buffers() ends it");
    return false;
}

bool register_parts(RingObject* self, const std::vector<iovec>& parts) noexcept {
    const int result =
        io_uring_register_buffers(&self->ring, parts.data(), static_cast<unsigned>(parts.size()));
    if (result == 0) {
        return true;
    }
    std::size_t total = 0;
    for (const iovec& part : parts) {
        total += part.iov_len;
    }
    if (result == -ENOMEM) {
        rlimit limit{};
        getrlimit(RLIMIT_MEMLOCK, &limit);
        raise_error(self->state, ENOMEM,
                    "registering %zu bytes exceeds the memory that this user may lock: "
                    "RLIMIT_MEMLOCK is %llu bytes for all rings together; raise it (ulimit -l), "
                    "register less, or use buffers that are not registered",
                    total, static_cast<unsigned long long>(limit.rlim_cur));
    } else {
        refused(self, "to register these buffers", result);
    }
    return false;
}

bool register_list(RingObject* self, PyObject* buffers) noexcept {
    const Ref sequence(PySequence_Fast(buffers, "buffers must be a BufferPool or a sequence"));
    if (!sequence) {
        return false;
    }
    Vectors vectors;
    try {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); ++i) {
            const Ref item = Ref::borrow(PySequence_Fast_GET_ITEM(sequence.get(), i));
            vectors.views.reserve(vectors.views.size() + 1);
            vectors.parts.reserve(vectors.parts.size() + 1);
            Py_buffer view{};
            if (PyObject_GetBuffer(item.get(), &view, PyBUF_WRITABLE) < 0) {
                return false;
            }
            vectors.views.push_back(view);
            vectors.parts.push_back(
                {.iov_base = view.buf, .iov_len = static_cast<std::size_t>(view.len)});
            if (view.len == 0) {
                PyErr_Format(PyExc_ValueError, "buffer %zd is empty and cannot be registered", i);
                return false;
            }
        }
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
    if (vectors.parts.empty()) {
        PyErr_SetString(PyExc_ValueError, "no buffers to register");
        return false;
    }
    if (!check_usable(self) || !check_none_registered(self) ||
        !register_parts(self, vectors.parts)) {
        return false;
    }
    self->registered = std::move(vectors.views);
    return true;
}

PyObject* register_buffers(PyObject* object, PyObject* buffers) {
    RingObject* self = self_of(object);
    if (!check_usable(self)) {
        return nullptr;
    }
    const bool done = Py_IS_TYPE(buffers, self->state->buffer_pool_type)
                          ? check_none_registered(self) &&
                                register_pool(self, reinterpret_cast<BufferPoolObject*>(buffers))
                          : register_list(self, buffers);
    if (!done) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

PyObject* unregister_buffers(PyObject* object, PyObject* /*unused*/) {
    RingObject* self = self_of(object);
    if (!check_usable(self)) {
        return nullptr;
    }
    if (self->pool == nullptr && self->registered.empty()) {
        return raise_error(self->state, ENXIO, "no buffers are registered");
    }
    if (self->operations.in_flight() > 0) {
        return raise_error(
            self->state, EBUSY,
            "%zu operations are in flight and may use the buffers; wait for them first",
            self->operations.in_flight());
    }
    const int result = io_uring_unregister_buffers(&self->ring);
    if (result < 0) {
        return refused(self, "to unregister the buffers", result);
    }
    release_registered(self);
    Py_RETURN_NONE;
}

PyObject* register_buffer_ring(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                               PyObject* keywords) {
    RingObject* self = self_of(object);
    Parameters<2> parameters{Name::count, Name::size};
    std::uint32_t buffers = 0;
    std::uint32_t size = 0;
    if (!parameters.parse(self->state, "register_buffer_ring", arguments, count, keywords, 2) ||
        !read_count(parameters[0], "count", 1, 1U << 15, buffers) ||
        !read_count(parameters[1], "size", 1, 1U << 30, size) || !check_usable(self)) {
        return nullptr;
    }
    if (!std::has_single_bit(buffers)) {
        return PyErr_Format(PyExc_ValueError, "count is %u; it must be a power of two", buffers);
    }
    return make_buffer_ring(self, buffers, size, self->next_buffer_group++);
}

PyObject* register_eventfd(PyObject* object, PyObject* descriptor) {
    RingObject* self = self_of(object);
    const int fd = PyObject_AsFileDescriptor(descriptor);
    if (fd < 0 || !check_usable(self)) {
        return nullptr;
    }
    const int result = io_uring_register_eventfd(&self->ring, fd);
    if (result == -EBUSY) {
        return raise_error(self->state, EBUSY,
                           "an eventfd is registered already; unregister_eventfd() ends it");
    }
    if (result < 0) {
        return refused(self, "to register this eventfd", result);
    }
    Py_RETURN_NONE;
}

PyObject* unregister_eventfd(PyObject* object, PyObject* /*unused*/) {
    RingObject* self = self_of(object);
    if (!check_usable(self)) {
        return nullptr;
    }
    const int result = io_uring_unregister_eventfd(&self->ring);
    if (result < 0) {
        return raise_error(self->state, -result, "no eventfd is registered");
    }
    Py_RETURN_NONE;
}

PyObject* set_max_workers(PyObject* object, PyObject* const* arguments, Py_ssize_t count) {
    RingObject* self = self_of(object);
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "set_max_workers() takes two numbers");
        return nullptr;
    }
    std::uint32_t bounded = 0;
    std::uint32_t unbounded = 0;
    if (!read_count(arguments[0], "bounded", 0, 1U << 16, bounded) ||
        !read_count(arguments[1], "unbounded", 0, 1U << 16, unbounded) || !check_usable(self)) {
        return nullptr;
    }
    unsigned workers[] = {bounded, unbounded};
    const int result = io_uring_register_iowq_max_workers(&self->ring, workers);
    if (result < 0) {
        return refused(self, "to limit its worker threads", result);
    }
    return Py_BuildValue("II", workers[0], workers[1]);
}

} // namespace

bool register_pool(RingObject* self, BufferPoolObject* pool) noexcept {
    if (pool->memory == nullptr || pool->buffers == nullptr) {
        PyErr_SetString(PyExc_ValueError, "the buffer pool is closed");
        return false;
    }
    std::vector<iovec> parts;
    try {
        for (std::size_t i = 0; i < pool->count; ++i) {
            parts.push_back(part_of(pool, i));
        }
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
    if (!register_parts(self, parts)) {
        return false;
    }
    self->pool = reinterpret_cast<BufferPoolObject*>(Py_NewRef(as_object(pool)));
    ++pool->registrations;
    return true;
}

void release_registered(RingObject* self) noexcept {
    if (BufferPoolObject* pool = std::exchange(self->pool, nullptr)) {
        --pool->registrations;
        Py_DECREF(as_object(pool));
    }
    std::vector<Py_buffer> views = std::move(self->registered);
    self->registered.clear();
    for (Py_buffer& view : views) {
        PyBuffer_Release(&view);
    }
}

PyMethodDef registration_methods[] = {
    {"register_files", &register_files, METH_O,
     "register_files(fds)\n--\n\n"
     "Register descriptors: an operation with fixed_file=True names one by its index.\n\n"
     "-1 leaves a place empty. The kernel holds the files until they are unregistered."},
    {"register_files_sparse", &register_files_sparse, METH_O,
     "register_files_sparse(count)\n--\n\nRegister empty places for files."},
    {"update_files", as_function(&update_files), METH_FASTCALL,
     "update_files(index, fds)\n--\n\nChange registered files from `index` on; -1 empties a "
     "place."},
    {"unregister_files", &unregister_files, METH_NOARGS, "End the registration of files."},
    {"register_buffers", &register_buffers, METH_O,
     "register_buffers(buffers)\n--\n\n"
     "Register a BufferPool or a sequence of writable buffers for prep_read_fixed()\n"
     "and similar methods.\n\n"
     "They cannot be resized until they are unregistered. UringError (ENOMEM) names the limit if\n"
     "this user may not lock as much memory."},
    {"unregister_buffers", &unregister_buffers, METH_NOARGS,
     "End the registration of buffers. UringError (EBUSY) while operations are in flight."},
    {"register_buffer_ring", as_function(&register_buffer_ring), METH_FASTCALL | METH_KEYWORDS,
     "register_buffer_ring(count, size)\n--\n\n"
     "A BufferRing of `count` (a power of two) buffers of `size` bytes, for the kernel to pick "
     "from."},
    {"register_eventfd", &register_eventfd, METH_O,
     "register_eventfd(fd)\n--\n\n"
     "Signal completions on an eventfd(2), for a selector. A deferring ring must also be "
     "entered:\n"
     "completions() does that."},
    {"unregister_eventfd", &unregister_eventfd, METH_NOARGS, "Undo register_eventfd()."},
    {"set_max_workers", as_function(&set_max_workers), METH_FASTCALL,
     "set_max_workers(bounded, unbounded)\n--\n\n"
     "Limit the kernel's worker threads: those for files, and those for operations that may wait\n"
     "for ever. 0 changes nothing. Returns the former limits."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace penstock::python::uring
