// A file in memory (mmap(2)): a buffer, and copies of parts of it.

#include "core/module.hpp"
#include "files/mapped_ranges.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include <sys/mman.h>
#include <unistd.h>

namespace penstock::python {

namespace {

struct MappedFileObject {
    PyObject head;
    char* begin; ///< null: empty, or closed
    Py_ssize_t size;
    MappedRange* range;
    PyObject* name;
    Py_ssize_t uses; ///< buffers that are exported, and calls that run without the GIL
    bool closed;
};

MappedFileObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<MappedFileObject*>(object);
}

void unmap(MappedFileObject* self) noexcept {
    if (self->range != nullptr) {
        release_range(self->range); // first: another mapping may get these addresses
        self->range = nullptr;
    }
    if (self->begin != nullptr) {
        ::munmap(self->begin, static_cast<std::size_t>(self->size));
        self->begin = nullptr;
    }
}

PyObject* os_error(int number, PyObject* name) noexcept {
    errno = number;
    return PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, name);
}

bool check_open(const MappedFileObject* self) noexcept {
    if (self->closed) {
        PyErr_SetString(PyExc_ValueError, "the mapped file is closed");
    }
    return !self->closed;
}

/// False with OSError set if a part of the content has been replaced by zeros.
bool check_whole(const MappedFileObject* self) noexcept {
    if (self->range == nullptr || !self->range->lost.load(std::memory_order_acquire)) {
        return true;
    }
    const Ref arguments(Py_BuildValue(
        "(isO)", EIO, "the file has become shorter since it was mapped, or cannot be read",
        self->name));
    if (arguments) {
        PyErr_SetObject(PyExc_OSError, arguments.get());
    }
    return false;
}

PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
    int descriptor = -1;
    long long size = 0;
    PyObject* name = nullptr;
    if (keywords != nullptr && PyDict_Size(keywords) != 0) {
        PyErr_SetString(PyExc_TypeError, "a mapped file takes no keyword arguments");
        return nullptr;
    }
    if (PyArg_ParseTuple(arguments, "iLO", &descriptor, &size, &name) == 0) {
        return nullptr;
    }
    if (size < 0 || size > PY_SSIZE_T_MAX) {
        PyErr_Format(PyExc_ValueError, "a file of %lld bytes cannot be mapped", size);
        return nullptr;
    }
    Ref made(type->tp_alloc(type, 0));
    if (!made) {
        return nullptr;
    }
    MappedFileObject* self = self_of(made.get());
    self->name = Py_NewRef(name);
    self->size = static_cast<Py_ssize_t>(size);
    if (size == 0) {
        return made.release();
    }
    void* begin =
        ::mmap(nullptr, static_cast<std::size_t>(size), PROT_READ, MAP_SHARED, descriptor, 0);
    if (begin == MAP_FAILED) {
        return os_error(errno, name);
    }
    self->begin = static_cast<char*>(begin);
    self->range = guard_range(begin, static_cast<std::size_t>(size));
    return self->range != nullptr ? made.release() : os_error(errno, name);
}

int traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self_of(object)->name);
    return 0;
}

int clear(PyObject* object) {
    Py_CLEAR(self_of(object)->name);
    return 0;
}

void deallocate(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    unmap(self_of(object));
    clear(object);
    type->tp_free(object);
    Py_DECREF(type);
}

// ---- reading
// ------------------------------------------------------------------------------------------

Py_ssize_t length(PyObject* object) {
    return self_of(object)->size;
}

PyObject* copy(MappedFileObject* self, Py_ssize_t begin, Py_ssize_t size) {
    if (size == 0) {
        return PyBytes_FromStringAndSize(nullptr, 0);
    }
    Ref bytes(PyBytes_FromStringAndSize(self->begin + begin, size));
    return bytes && check_whole(self) ? bytes.release() : nullptr;
}

PyObject* subscript(PyObject* object, PyObject* key) {
    MappedFileObject* self = self_of(object);
    if (!check_open(self)) {
        return nullptr;
    }
    if (PyIndex_Check(key) != 0) {
        Py_ssize_t index = PyNumber_AsSsize_t(key, PyExc_IndexError);
        if (index == -1 && PyErr_Occurred() != nullptr) {
            return nullptr;
        }
        index += index < 0 ? self->size : 0;
        if (index < 0 || index >= self->size) {
            PyErr_SetString(PyExc_IndexError, "the mapped file ends before this index");
            return nullptr;
        }
        const auto value = static_cast<unsigned char>(self->begin[index]);
        return check_whole(self) ? PyLong_FromLong(value) : nullptr;
    }
    Py_ssize_t begin = 0;
    Py_ssize_t end = 0;
    Py_ssize_t step = 0;
    if (PySlice_Check(key) == 0) {
        return PyErr_Format(PyExc_TypeError,
                            "indices of a mapped file are integers or slices, not %s",
                            Py_TYPE(key)->tp_name);
    }
    if (PySlice_Unpack(key, &begin, &end, &step) != 0) {
        return nullptr;
    }
    const Py_ssize_t count = PySlice_AdjustIndices(self->size, &begin, &end, step);
    if (step == 1) {
        return copy(self, begin, count);
    }
    Ref bytes(PyBytes_FromStringAndSize(nullptr, count));
    if (!bytes) {
        return nullptr;
    }
    for (Py_ssize_t index = 0; index < count; ++index) {
        PyBytes_AS_STRING(bytes.get())[index] = self->begin[begin + index * step];
    }
    return check_whole(self) ? bytes.release() : nullptr;
}

int get_buffer(PyObject* object, Py_buffer* view, int flags) {
    static char nothing = 0;
    MappedFileObject* self = self_of(object);
    if (!check_open(self)) {
        view->obj = nullptr;
        return -1;
    }
    char* begin = self->begin != nullptr ? self->begin : &nothing;
    if (PyBuffer_FillInfo(view, object, begin, self->size, 1, flags) != 0) {
        return -1;
    }
    ++self->uses;
    return 0;
}

void release_buffer(PyObject* object, Py_buffer* /*view*/) {
    --self_of(object)->uses;
}

/// Reads a byte of each page of a range.
void touch(const char* begin, std::size_t size, std::size_t page) noexcept {
    for (std::size_t at = 0; at < size; at += page) {
        (void)*static_cast<const volatile char*>(begin + at);
    }
}

PyObject* populate_now(PyObject* object, PyObject* const* values, Py_ssize_t count) {
    constexpr int populate_read = 22; // MADV_POPULATE_READ of Linux 5.14
    MappedFileObject* self = self_of(object);
    if (count != 2) {
        return PyErr_Format(PyExc_TypeError, "_populate() takes 2 arguments, not %zd", count);
    }
    const Py_ssize_t offset = PyNumber_AsSsize_t(values[0], PyExc_OverflowError);
    const Py_ssize_t wanted = PyNumber_AsSsize_t(values[1], PyExc_OverflowError);
    if (PyErr_Occurred() != nullptr || !check_open(self)) {
        return nullptr;
    }
    if (offset >= 0 && offset < self->size && wanted > 0) {
        const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
        const std::size_t begin = static_cast<std::size_t>(offset) / page * page;
        const auto end = static_cast<std::size_t>(offset + std::min(wanted, self->size - offset));
        ++self->uses;
        PyThreadState* thread = PyEval_SaveThread();
        if (::madvise(self->begin + begin, end - begin, populate_read) != 0) {
            touch(self->begin + begin, end - begin, page); // and finds what is lost
        }
        PyEval_RestoreThread(thread);
        --self->uses;
        if (self->closed && self->uses == 0) {
            unmap(self);
        }
    }
    if (!check_whole(self)) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

PyObject* close_now(PyObject* object, PyObject* /*unused*/) {
    MappedFileObject* self = self_of(object);
    if (self->uses > 0 && !self->closed) {
        PyErr_SetString(PyExc_BufferError,
                        "the mapped file is in use: release its memoryviews, and await its calls, "
                        "before close()");
        return nullptr;
    }
    self->closed = true;
    unmap(self);
    Py_RETURN_NONE;
}

PyObject* get_closed(PyObject* object, void* /*unused*/) {
    return PyBool_FromLong(self_of(object)->closed ? 1 : 0);
}

PyObject* get_lost(PyObject* object, void* /*unused*/) {
    const MappedRange* range = self_of(object)->range;
    return PyBool_FromLong(range != nullptr && range->lost.load(std::memory_order_acquire) ? 1 : 0);
}

PyObject* get_name(PyObject* object, void* /*unused*/) {
    return Py_NewRef(self_of(object)->name);
}

PyMethodDef methods[] = {
    {"_populate", as_function(&populate_now), METH_FASTCALL,
     "_populate(offset, size): read a range into memory; blocks, without the GIL."},
    {"_close", &close_now, METH_NOARGS, "Unmap; BufferError while buffers are exported."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef getters[] = {
    {"closed", &get_closed, nullptr, "Whether it is closed.", nullptr},
    {"lost", &get_lost, nullptr,
     "Whether a part that was read is zeros, because the file has become shorter or cannot be "
     "read.",
     nullptr},
    {"name", &get_name, nullptr, "The path as it was given.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot type_slots[] = {
    {Py_tp_doc, const_cast<char*>("The native part of penstock.files.MappedFile.")},
    {Py_tp_new, reinterpret_cast<void*>(&make)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&deallocate)},
    {Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&clear)},
    {Py_tp_methods, static_cast<void*>(methods)},
    {Py_tp_getset, static_cast<void*>(getters)},
    {Py_mp_length, reinterpret_cast<void*>(&length)},
    {Py_mp_subscript, reinterpret_cast<void*>(&subscript)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(&release_buffer)},
    {0, nullptr},
};

PyType_Spec type_spec = {
    .name = "penstock._core.MappedFileCore",
    .basicsize = sizeof(MappedFileObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = type_slots,
};

} // namespace

bool add_mapped_file_type(PyObject* module) {
    const Ref type(PyType_FromModuleAndSpec(module, &type_spec, nullptr));
    return type && PyModule_AddType(module, reinterpret_cast<PyTypeObject*>(type.get())) == 0;
}

} // namespace penstock::python
