// The buffer of a native stream reader, and asyncio.StreamReader's methods on it.

#include "streams/stream_reader.hpp"

#include "core/named_arguments.hpp"

#include <algorithm>
#include <cstring>

#include <structmember.h>

namespace penstock::python {

namespace {

using Kind = ReadOperationObject::Kind;

constexpr Py_ssize_t default_limit = Py_ssize_t{64} * 1024;

/// A drained reader keeps up to this much memory for the next burst, and frees more.
constexpr std::size_t max_idle_capacity = std::size_t{64} * 1024;

/// Copies borrowed data into the reader's own memory. False with MemoryError set; then nothing has
/// changed.
bool copy_borrowed(StreamReaderObject* reader) noexcept;

/// Appends `size` bytes. False with MemoryError set; then nothing is lost.
bool append(StreamReaderObject* reader, const char* data, std::size_t size) noexcept {
    if (!copy_borrowed(reader)) {
        return false;
    }
    const std::size_t needed = reader->size + size;
    const auto front =
        reader->size > 0 ? static_cast<std::size_t>(reader->data - reader->memory) : std::size_t{0};
    if (front + needed > reader->capacity) {
        if (needed <= reader->capacity && front >= reader->capacity / 2) {
            std::memmove(reader->memory, reader->data, reader->size);
        } else {
            const std::size_t capacity = std::max<std::size_t>(needed + needed / 2, 1024);
            auto* memory = static_cast<char*>(PyMem_Malloc(capacity));
            if (memory == nullptr) {
                PyErr_NoMemory();
                return false;
            }
            if (reader->size > 0) {
                std::memcpy(memory, reader->data, reader->size);
            }
            PyMem_Free(reader->memory);
            reader->memory = memory;
            reader->capacity = capacity;
        }
        reader->data = reader->memory;
    } else if (reader->size == 0) {
        reader->data = reader->memory;
    }
    std::memcpy(reader->memory + (reader->data - reader->memory) + reader->size, data, size);
    reader->size = needed;
    return true;
}

bool copy_borrowed(StreamReaderObject* reader) noexcept {
    if (!std::exchange(reader->borrows, false) || reader->size == 0) {
        return true;
    }
    const char* data = std::exchange(reader->data, reader->memory);
    const std::size_t size = std::exchange(reader->size, 0);
    if (append(reader, data, size)) {
        return true;
    }
    reader->data = data;
    reader->size = size;
    reader->borrows = true;
    return false;
}

/// Pauses the transport when the buffer holds more than twice the limit and no read waits.
bool pause_transport_if_full(StreamReaderObject* reader) noexcept {
    if (reader->transport == nullptr || reader->paused || reader->waiting != nullptr ||
        reader->size <= 2 * reader->limit) {
        return true;
    }
    const Ref transport = Ref::borrow(reader->transport);
    if (Ref(PyObject_CallMethod(transport.get(), "pause_reading", nullptr))) {
        reader->paused = true;
        return true;
    }
    if (PyErr_ExceptionMatches(PyExc_NotImplementedError) == 0) {
        return false;
    }
    PyErr_Clear(); // it cannot be paused: all data is kept
    Py_CLEAR(reader->transport);
    return true;
}

bool wake_waiting(StreamReaderObject* reader) noexcept {
    return reader->waiting == nullptr || reader->waiting->wake_soon();
}

PyObject* reader_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"limit", "loop", nullptr};
    Py_ssize_t limit = default_limit;
    PyObject* loop = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|nO:StreamReader",
                                     const_cast<char**>(names), &limit, &loop)) {
        return nullptr;
    }
    if (limit <= 0) {
        PyErr_SetString(PyExc_ValueError, "Limit cannot be <= 0");
        return nullptr;
    }
    const Ref running =
        loop != Py_None ? Ref::borrow(loop) : upcall(state_of(type), "current_loop", nullptr, 0);
    Ref self(running ? type->tp_alloc(type, 0) : nullptr);
    if (!self) {
        return nullptr;
    }
    StreamReaderObject* reader = reader_of(self.get());
    reader->loop = Py_NewRef(running.get());
    reader->limit = static_cast<std::size_t>(limit);
    return self.release();
}

PyObject* reader_read(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                      PyObject* keywords) {
    const Py_ssize_t named = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    const Py_ssize_t given = count + named;
    if (given > 1 ||
        (named == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(keywords, 0), "n") != 0)) {
        PyErr_SetString(PyExc_TypeError, "read() takes at most one argument, the number of bytes");
        return nullptr;
    }
    Py_ssize_t size = -1;
    if (given == 1) {
        size = PyNumber_AsSsize_t(arguments[0], PyExc_OverflowError);
        if (size == -1 && PyErr_Occurred() != nullptr) {
            return nullptr;
        }
    }
    return make_read(reader_of(self), size < 0 ? Kind::all : Kind::some, size, nullptr);
}

PyObject* reader_readexactly(PyObject* self, PyObject* argument) {
    const Py_ssize_t size = PyNumber_AsSsize_t(argument, PyExc_OverflowError);
    if (size == -1 && PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    return make_read(reader_of(self), Kind::exactly, size, nullptr);
}

PyObject* reader_readline(PyObject* self, PyObject* /*unused*/) {
    return make_read(reader_of(self), Kind::line, 0, nullptr);
}

PyObject* reader_readuntil(PyObject* self, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"separator", nullptr};
    PyObject* separator = nullptr;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O:readuntil", const_cast<char**>(names),
                                     &separator)) {
        return nullptr;
    }
    Ref separators;
    if (separator != nullptr) {
        separators = upcall(state_of(Py_TYPE(self)), "separators", &separator, 1);
        if (!separators) {
            return nullptr;
        }
    }
    return make_read(reader_of(self), Kind::until, 0, separators.get());
}

PyObject* reader_aiter(PyObject* self) {
    return Py_NewRef(self);
}

PyObject* reader_anext(PyObject* self) {
    return make_read(reader_of(self), Kind::next_line, 0, nullptr);
}

PyObject* reader_feed_data(PyObject* self, PyObject* data) {
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) != 0) {
        return nullptr;
    }
    // The caller may be a task: the waiting task must not run inside of it.
    const bool fed = feed_later(reader_of(self), static_cast<const char*>(view.buf),
                                static_cast<std::size_t>(view.len));
    PyBuffer_Release(&view);
    return fed ? Py_NewRef(Py_None) : nullptr;
}

PyObject* reader_feed_eof(PyObject* self, PyObject* /*unused*/) {
    StreamReaderObject* reader = reader_of(self);
    reader->eof = true;
    return wake_waiting(reader) ? Py_NewRef(Py_None) : nullptr;
}

PyObject* reader_at_eof(PyObject* self, PyObject* /*unused*/) {
    const StreamReaderObject* reader = reader_of(self);
    return PyBool_FromLong(reader->eof && reader->size == 0);
}

PyObject* reader_exception(PyObject* self, PyObject* /*unused*/) {
    PyObject* exception = reader_of(self)->exception;
    return Py_NewRef(exception != nullptr ? exception : Py_None);
}

PyObject* reader_set_exception(PyObject* self, PyObject* exception) {
    StreamReaderObject* reader = reader_of(self);
    if (exception == Py_None) { // as in asyncio: later reads raise nothing
        Py_CLEAR(reader->exception);
        Py_RETURN_NONE;
    }
    Ref instance = exception_of(exception);
    if (!instance) {
        return nullptr;
    }
    Py_XSETREF(reader->exception, instance.release());
    return wake_waiting(reader) ? Py_NewRef(Py_None) : nullptr;
}

PyObject* reader_set_transport(PyObject* self, PyObject* transport) {
    StreamReaderObject* reader = reader_of(self);
    if (reader->transport != nullptr) {
        PyErr_SetString(PyExc_AssertionError, "Transport already set");
        return nullptr;
    }
    reader->transport = Py_NewRef(transport);
    Py_RETURN_NONE;
}

/// TLS has begun. Data that was delivered before may have paused the transport below, which the
/// next read would not resume. So a pause moves to the new transport.
PyObject* reader_replace_transport(PyObject* self, PyObject* transport) {
    StreamReaderObject* reader = reader_of(self);
    const Ref beneath(std::exchange(reader->transport, Py_NewRef(transport)));
    if (!std::exchange(reader->paused, false)) {
        Py_RETURN_NONE;
    }
    const bool moved =
        pause_transport_if_full(reader) &&
        (!beneath || Ref(PyObject_CallMethod(beneath.get(), "resume_reading", nullptr)));
    return moved ? Py_NewRef(Py_None) : nullptr;
}

/// Takes the unread bytes: a TLS handshake receives them first. The transport stays paused if it
/// was.
PyObject* reader_take_buffered(PyObject* self, PyObject* /*unused*/) {
    StreamReaderObject* reader = reader_of(self);
    PyObject* data = PyBytes_FromStringAndSize(reader->data, static_cast<Py_ssize_t>(reader->size));
    if (data != nullptr) {
        reader->size = 0;
        reader->paused = false;
    }
    return data;
}

PyObject* reader_repr(PyObject* self) {
    const StreamReaderObject* reader = reader_of(self);
    return PyUnicode_FromFormat("<StreamReader %zu bytes%s%s%s limit=%zu>", reader->size,
                                reader->eof ? " eof" : "", reader->paused ? " paused" : "",
                                reader->waiting != nullptr ? " waiting" : "", reader->limit);
}

int reader_traverse(PyObject* self, visitproc visit, void* arg) {
    StreamReaderObject* reader = reader_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(reader->loop);
    Py_VISIT(reader->transport);
    Py_VISIT(reader->exception);
    Py_VISIT(reader->waiting);
    return 0;
}

int reader_clear(PyObject* self) {
    StreamReaderObject* reader = reader_of(self);
    Py_CLEAR(reader->loop);
    Py_CLEAR(reader->transport);
    Py_CLEAR(reader->exception);
    Py_CLEAR(reader->waiting);
    return 0;
}

void reader_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    StreamReaderObject* reader = reader_of(self);
    if (reader->weak_references != nullptr) {
        PyObject_ClearWeakRefs(self);
    }
    reader_clear(self);
    PyMem_Free(reader->memory);
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

constexpr Parameters readexactly_parameters{"readexactly", "n"};
constexpr Parameters feed_data_parameters{"feed_data", "data"};
constexpr Parameters set_exception_parameters{"set_exception", "exc"};
constexpr Parameters set_transport_parameters{"set_transport", "transport"};

PyMethodDef reader_methods[] = {
    {"read", as_function(&reader_read), METH_FASTCALL | METH_KEYWORDS,
     "Read up to n bytes, or until the end with n = -1."},
    {"readexactly", as_function(&with_one_parameter<&reader_readexactly, readexactly_parameters>),
     METH_FASTCALL | METH_KEYWORDS, "Read exactly n bytes."},
    {"readline", &reader_readline, METH_NOARGS, "Read a line with its newline."},
    {"readuntil", as_function(&reader_readuntil), METH_VARARGS | METH_KEYWORDS,
     "Read up to and including a separator."},
    {"feed_data", as_function(&with_one_parameter<&reader_feed_data, feed_data_parameters>),
     METH_FASTCALL | METH_KEYWORDS, "Add received bytes."},
    {"feed_eof", &reader_feed_eof, METH_NOARGS, "Record the end of the stream."},
    {"at_eof", &reader_at_eof, METH_NOARGS, "Whether the stream has ended and all of it was read."},
    {"exception", &reader_exception, METH_NOARGS, "The exception that reads raise, or None."},
    {"set_exception",
     as_function(&with_one_parameter<&reader_set_exception, set_exception_parameters>),
     METH_FASTCALL | METH_KEYWORDS, "Set the exception of this and every later read."},
    {"set_transport",
     as_function(&with_one_parameter<&reader_set_transport, set_transport_parameters>),
     METH_FASTCALL | METH_KEYWORDS, "Set the transport, for flow control."},
    {"_replace_transport", &reader_replace_transport, METH_O, nullptr},
    {"_take_buffered", &reader_take_buffered, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef reader_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(StreamReaderObject, weak_references), READONLY,
     nullptr},
    {"_transport", T_OBJECT, offsetof(StreamReaderObject, transport), READONLY, nullptr},
    {"_limit", T_PYSSIZET, offsetof(StreamReaderObject, limit), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot reader_slots[] = {
    {Py_tp_doc, const_cast<char*>("The receiving side of a stream connection.")},
    {Py_tp_new, reinterpret_cast<void*>(&reader_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&reader_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&reader_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&reader_clear)},
    {Py_tp_repr, reinterpret_cast<void*>(&reader_repr)},
    {Py_am_aiter, reinterpret_cast<void*>(&reader_aiter)},
    {Py_am_anext, reinterpret_cast<void*>(&reader_anext)},
    {Py_tp_methods, reader_methods},
    {Py_tp_members, reader_members},
    {0, nullptr},
};

PyType_Spec reader_spec = {
    .name = "penstock._core.StreamReader",
    .basicsize = sizeof(StreamReaderObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = reader_slots,
};

} // namespace

bool feed_from_dispatcher(StreamReaderObject* reader, const char* data, std::size_t size) noexcept {
    const Ref alive = Ref::borrow(as_object(reader));
    if (reader->eof) {
        PyErr_SetString(PyExc_AssertionError, "feed_data after feed_eof");
        return false;
    }
    if (reader->size == 0 && reader->waiting != nullptr) {
        // A read waits and nothing was buffered before this: it takes the bytes from the caller's
        // memory.
        reader->data = data;
        reader->size = size;
        reader->borrows = true;
    } else if (!append(reader, data, size)) {
        return false;
    }
    const bool resumed =
        reader->waiting == nullptr || !would_complete(reader->waiting) || resume(reader->waiting);
    // The task has run: all state is read again from here on.
    Ref failure = resumed ? Ref() : take_exception();
    if (!copy_borrowed(reader)) {
        reader->data = reader->memory;
        reader->borrows = false;
        reader->size = 0; // the data is lost; the caller closes the connection
        failure = failure ? std::move(failure) : take_exception();
    }
    if (failure) {
        raise_exception(std::move(failure));
        return false;
    }
    return pause_transport_if_full(reader);
}

bool feed_later(StreamReaderObject* reader, const char* data, std::size_t size) noexcept {
    const Ref alive = Ref::borrow(as_object(reader));
    if (reader->eof) {
        PyErr_SetString(PyExc_AssertionError, "feed_data after feed_eof");
        return false;
    }
    if (size > 0 && !append(reader, data, size)) {
        return false;
    }
    if (reader->waiting != nullptr && would_complete(reader->waiting) &&
        !reader->waiting->wake_soon()) {
        return false;
    }
    return pause_transport_if_full(reader);
}

bool consume(StreamReaderObject* reader, std::size_t count) noexcept {
    reader->data += count;
    reader->size -= count;
    if (reader->size == 0 && reader->capacity > max_idle_capacity) {
        PyMem_Free(std::exchange(reader->memory, nullptr));
        reader->capacity = 0;
    }
    return !reader->paused || reader->size > reader->limit || resume_transport(reader);
}

bool resume_transport(StreamReaderObject* reader) noexcept {
    if (!reader->paused) {
        return true;
    }
    reader->paused = false;
    const Ref transport = Ref::borrow(reader->transport);
    return !transport || Ref(PyObject_CallMethod(transport.get(), "resume_reading", nullptr));
}

bool add_stream_reader_type(PyObject* module, ModuleState* state) {
    state->stream_reader_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &reader_spec, nullptr));
    return state->stream_reader_type != nullptr &&
           PyModule_AddType(module, state->stream_reader_type) == 0;
}

} // namespace penstock::python
