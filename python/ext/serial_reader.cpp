#include "serial_reader.hpp"

#include "coroutine_protocol.hpp"
#include "fd_callbacks.hpp"
#include "module.hpp"
#include "read_buffer.hpp"

#include <algorithm>
#include <cerrno>
#include <new>

#include <structmember.h>
#include <unistd.h>

namespace penstock::python {

namespace {

using Stage = SerialReadObject::Stage;

enum class Outcome : unsigned char { done, blocked, failed };

SerialReaderObject* reader_of(PyObject* object) noexcept {
    return reinterpret_cast<SerialReaderObject*>(object);
}

SerialReadObject* read_of(PyObject* object) noexcept {
    return reinterpret_cast<SerialReadObject*>(object);
}

SocketDescriptor place_of(SerialReaderObject* reader) noexcept {
    return {.socket = as_object(reader), .fd = reader->fd};
}

// ---- a read ---------------------------------------------------------------------------------------

void stop_waiting(SerialReadObject* read) noexcept {
    if (DescriptorWaiterObject* waiter = std::exchange(read->waiter, nullptr)) {
        abandon(waiter);
        Py_DECREF(waiter);
    }
}

void finish(SerialReadObject* read) noexcept {
    read->stage = Stage::finished;
    stop_waiting(read);
    Py_CLEAR(read->held);
    read->view.release();
}

/// Gives back to the reader what was read for a task that will not take it.
void keep_unread(SerialReadObject* read) noexcept {
    if (read->held == nullptr) {
        return;
    }
    Ref bytes = Ref::borrow(read->held);
    if (read->view) {
        Ref exception = take_exception();
        bytes = Ref(PyBytes_FromStringAndSize(read->view.data(), PyLong_AsSsize_t(read->held)));
        if (!bytes) {
            PyErr_WriteUnraisable(as_object(read));
        }
        if (exception) {
            raise_exception(std::move(exception));
        }
    }
    Py_XSETREF(read->reader->unread, bytes.release());
}

/// False with an exception set when the port or the loop is closed.
bool may_read(SerialReaderObject* reader) noexcept {
    if (reader->closed_error == nullptr) {
        return check_open(reader->loop);
    }
    const Ref make_error = Ref::borrow(reader->closed_error);
    const Ref error(PyObject_CallNoArgs(make_error.get()));
    if (error) {
        PyErr_SetObject(as_object(Py_TYPE(error.get())), error.get());
    }
    return false;
}

/// read(2) into the caller's buffer, or through the loop's into bytes of just the right size.
Outcome attempt(SerialReadObject* read, Ref& result) noexcept {
    SerialReaderObject* reader = read->reader;
    if (!may_read(reader)) {
        return Outcome::failed;
    }
    const bool into = static_cast<bool>(read->view);
    const ReadBuffer buffer = into ? ReadBuffer::none() : ReadBuffer(reader->loop);
    char* target = into ? read->view.data() : buffer.data();
    if (target == nullptr && !into) {
        PyErr_NoMemory();
        return Outcome::failed;
    }
    const Py_ssize_t size = into ? read->view.size() : read->size;
    ssize_t count = 0;
    do {
        count = ::read(reader->fd, target, static_cast<std::size_t>(size));
    } while (count < 0 && errno == EINTR);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return Outcome::blocked;
    }
    if (count <= 0) {
        const int error = errno;
        note_end(reader->loop, place_of(reader)); // a hung-up tty would stay readable for ever
        if (count < 0) {
            errno = error;
            PyErr_SetFromErrno(PyExc_OSError);
            return Outcome::failed;
        }
    }
    result = Ref(into ? PyLong_FromSsize_t(count) : PyBytes_FromStringAndSize(target, count));
    return result ? Outcome::done : Outcome::failed;
}

bool wait_until_readable(SerialReadObject* read) noexcept {
    SerialReaderObject* reader = read->reader;
    DescriptorWaiterObject* waiter = make_descriptor_waiter(reader->loop);
    if (waiter == nullptr) {
        return false;
    }
    // Asked last: making the waiter may have collected garbage, whose finalizers run Python code.
    if (!may_read(reader)) {
        Py_DECREF(waiter);
        return false;
    }
    reader->immediate = 0;
    read->stage = Stage::suspended;
    read->waiter = waiter;
    return begin_wait(reader->loop, reading, place_of(reader), waiter);
}

bool must_give_way(SerialReaderObject* reader) noexcept {
    ++reader->immediate;
    if (reader->immediate < SerialReaderObject::immediate_limit &&
        !reader->loop->io->has_ready_work()) {
        return false;
    }
    reader->immediate = 0;
    return true;
}

bool may_resume_read(const SerialReadObject* read) noexcept {
    return may_resume(read->stage == Stage::running, read->stage == Stage::finished);
}

PySendResult read_am_send(PyObject* self, PyObject* /*value*/, PyObject** result) {
    SerialReadObject* read = read_of(self);
    *result = nullptr;
    if (!may_resume_read(read)) {
        return PYGEN_ERROR;
    }
    if (read->held != nullptr) {
        *result = std::exchange(read->held, nullptr);
        finish(read);
        return PYGEN_RETURN;
    }
    const bool woken = read->waiter != nullptr;
    read->stage = Stage::running; // first: what follows runs Python code, which may come back here
    stop_waiting(read);
    Ref value;
    const Outcome outcome = attempt(read, value);
    if (outcome == Outcome::blocked && wait_until_readable(read)) {
        *result = Py_NewRef(as_object(read->waiter));
        return PYGEN_NEXT;
    }
    if (outcome == Outcome::done && !woken && must_give_way(read->reader)) {
        read->stage = Stage::suspended;
        read->held = value.release();
        *result = Py_NewRef(Py_None);
        return PYGEN_NEXT;
    }
    finish(read);
    *result = value.release();
    return outcome == Outcome::done ? PYGEN_RETURN : PYGEN_ERROR;
}

PyObject* read_next(PyObject* self) {
    PyObject* result = nullptr;
    const PySendResult sent = read_am_send(self, Py_None, &result);
    return iterator_step(self, sent, result);
}

PyObject* read_send(PyObject* self, PyObject* /*value*/) {
    PyObject* result = nullptr;
    const PySendResult sent = read_am_send(self, Py_None, &result);
    return send_step(sent, result);
}

PyObject* read_throw(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    SerialReadObject* read = read_of(self);
    if (!may_resume_read(read)) {
        return nullptr;
    }
    keep_unread(read);
    finish(read);
    raise_thrown(arguments, count);
    return nullptr;
}

PyObject* read_close(PyObject* self, PyObject* /*unused*/) {
    SerialReadObject* read = read_of(self);
    if (read->stage == Stage::running) {
        PyErr_SetString(PyExc_ValueError, "coroutine already executing");
        return nullptr;
    }
    keep_unread(read);
    finish(read);
    Py_RETURN_NONE;
}

int read_traverse(PyObject* self, visitproc visit, void* arg) {
    SerialReadObject* read = read_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(read->reader);
    Py_VISIT(read->waiter);
    Py_VISIT(read->held);
    Py_VISIT(read->view.owner());
    return 0;
}

int read_clear(PyObject* self) {
    finish(read_of(self));
    return 0;
}

void read_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    SerialReadObject* read = read_of(self);
    keep_unread(read);
    finish(read);
    Py_DECREF(read->reader);
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

PyMethodDef read_methods[] = {
    {"send", &read_send, METH_O, "Begin, or go on; as a coroutine's."},
    {"throw", as_function(&read_throw), METH_FASTCALL, "End it with an exception."},
    {"close", &read_close, METH_NOARGS, "End it."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot read_slots[] = {
    {Py_tp_doc, const_cast<char*>("A receive from a serial port, to be awaited once.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(&read_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&read_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&read_clear)},
    {Py_tp_iternext, reinterpret_cast<void*>(&read_next)},
    {Py_tp_iter, reinterpret_cast<void*>(&await_itself)},
    {Py_am_await, reinterpret_cast<void*>(&await_itself)},
    {Py_am_send, reinterpret_cast<void*>(&read_am_send)},
    {Py_tp_methods, read_methods},
    {0, nullptr},
};

PyType_Spec read_spec = {
    .name = "penstock._core.SerialRead",
    .basicsize = sizeof(SerialReadObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = read_slots,
};

// ---- the reader -----------------------------------------------------------------------------------

/// Whether its loop runs here and now; elsewhere a port moved to another loop, and must not use it.
bool runs_here(const SerialReaderObject* reader) noexcept {
    const LoopObject* loop = reader->loop;
    return loop->owner_thread == PyThread_get_thread_ident() && loop->thread_id != nullptr &&
           loop->thread_id != Py_None;
}

SerialReadObject* make_read(SerialReaderObject* reader) noexcept {
    auto* read = PyObject_GC_New(SerialReadObject, reader->loop->state->serial_read_type);
    if (read != nullptr) {
        read->reader = reinterpret_cast<SerialReaderObject*>(Py_NewRef(as_object(reader)));
        read->waiter = nullptr;
        read->held = nullptr;
        new (&read->view) BufferView;
        read->size = 0;
        read->stage = Stage::created;
        PyObject_GC_Track(as_object(read));
    }
    return read;
}

PyObject* receive(PyObject* self, PyObject* argument) {
    SerialReaderObject* reader = reader_of(self);
    const Py_ssize_t size = PyNumber_AsSsize_t(argument, PyExc_OverflowError);
    if (size == -1 && PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    if (size < 1) {
        return PyErr_Format(PyExc_ValueError, "size must be at least 1, not %zd", size);
    }
    if (!runs_here(reader)) {
        Py_RETURN_NONE;
    }
    SerialReadObject* read = make_read(reader);
    if (read != nullptr) {
        read->size = std::min(size, static_cast<Py_ssize_t>(ReadBuffer::size));
    }
    return as_object(read);
}

PyObject* receive_into(PyObject* self, PyObject* argument) {
    SerialReaderObject* reader = reader_of(self);
    if (!runs_here(reader)) {
        Py_RETURN_NONE;
    }
    SerialReadObject* read = make_read(reader);
    if (read != nullptr && !read->view.acquire(argument, PyBUF_WRITABLE)) {
        Py_DECREF(read);
        return nullptr;
    }
    return as_object(read);
}

PyObject* take_unread(PyObject* self, PyObject* /*unused*/) {
    PyObject* unread = std::exchange(reader_of(self)->unread, nullptr);
    return unread != nullptr ? unread : PyBytes_FromStringAndSize(nullptr, 0);
}

PyObject* close_reader(PyObject* self, PyObject* argument) {
    SerialReaderObject* reader = reader_of(self);
    if (reader->closed_error != nullptr) {
        Py_RETURN_NONE;
    }
    reader->closed_error = Py_NewRef(argument);
    if (!reader->loop->closed) {
        wake_all(reader->loop, reading, place_of(reader));
        note_end(reader->loop, place_of(reader));
    }
    Py_RETURN_NONE;
}

PyObject* new_reader(PyTypeObject* type, PyObject* arguments, PyObject* /*keywords*/) {
    ModuleState* state = state_of(type);
    PyObject* loop = nullptr;
    int fd = -1;
    if (state == nullptr ||
        !PyArg_ParseTuple(arguments, "O!i:SerialReader", state->loop_type, &loop, &fd)) {
        return nullptr;
    }
    if (fd < 0) {
        return PyErr_Format(PyExc_ValueError, "Invalid file descriptor: %d", fd);
    }
    auto* reader = reader_of(type->tp_alloc(type, 0));
    if (reader != nullptr) {
        reader->loop = reinterpret_cast<LoopObject*>(Py_NewRef(loop));
        reader->fd = fd;
    }
    return as_object(reader);
}

int reader_traverse(PyObject* self, visitproc visit, void* arg) {
    SerialReaderObject* reader = reader_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(reader->loop);
    Py_VISIT(reader->unread);
    Py_VISIT(reader->closed_error);
    return 0;
}

int reader_clear(PyObject* self) {
    Py_CLEAR(reader_of(self)->unread);
    Py_CLEAR(reader_of(self)->closed_error);
    return 0;
}

void reader_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    SerialReaderObject* reader = reader_of(self);
    if (reader->weak_references != nullptr) {
        PyObject_ClearWeakRefs(self);
    }
    reader_clear(self);
    Py_CLEAR(reader->loop);
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef reader_methods[] = {
    {"receive", &receive, METH_O,
     "An awaitable of up to so many bytes; b'' at a hang-up. None if its loop does not run here."},
    {"receive_into", &receive_into, METH_O,
     "An awaitable of the count of bytes put into a writable buffer; else as receive()."},
    {"take_unread", &take_unread, METH_NOARGS, "What was read for a receive that was cancelled."},
    {"close", &close_reader, METH_O,
     "Forget the descriptor; who waits, and whoever comes later, gets what the callable makes."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef reader_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(SerialReaderObject, weak_references), READONLY,
     nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot reader_slots[] = {
    {Py_tp_doc, const_cast<char*>("SerialReader(loop, fd): the receiving side of an open tty.")},
    {Py_tp_new, reinterpret_cast<void*>(&new_reader)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&reader_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&reader_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&reader_clear)},
    {Py_tp_methods, reader_methods},
    {Py_tp_members, reader_members},
    {0, nullptr},
};

PyType_Spec reader_spec = {
    .name = "penstock._core.SerialReader",
    .basicsize = sizeof(SerialReaderObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = reader_slots,
};

} // namespace

bool add_serial_reader_types(PyObject* module, ModuleState* state) {
    state->serial_read_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &read_spec, nullptr));
    if (state->serial_read_type == nullptr ||
        PyModule_AddType(module, state->serial_read_type) != 0) {
        return false;
    }
    state->serial_reader_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &reader_spec, nullptr));
    return state->serial_reader_type != nullptr &&
           PyModule_AddType(module, state->serial_reader_type) == 0;
}

} // namespace penstock::python
