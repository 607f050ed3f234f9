#include "serial/serial_reader.hpp"

#include "core/fd_callbacks.hpp"
#include "core/module.hpp"
#include "net/read_buffer.hpp"
#include "serial/serial_exchange.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <new>

#include <structmember.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace penstock::python {

namespace {

enum class Outcome : unsigned char { done, blocked, failed };

SerialReaderObject* reader_of(PyObject* object) noexcept {
    return reinterpret_cast<SerialReaderObject*>(object);
}

/// Raises the exception of a closed port.
std::nullptr_t raise_closed(SerialReaderObject* reader) noexcept {
    const Ref make_error = Ref::borrow(reader->closed_error);
    const Ref error(PyObject_CallNoArgs(make_error.get()));
    if (error) {
        raise_given(error.get());
    }
    return nullptr;
}

// ---- a read
// ---------------------------------------------------------------------------------------

void stop_waiting(SerialReadObject* read) noexcept {
    if (DescriptorWaiterObject* waiter = std::exchange(read->waiter, nullptr)) {
        abandon(waiter);
        Py_DECREF(waiter);
    }
}

/// Stores the bytes of a task that will not take them as the reader's `unread`.
void store_unread(SerialReadObject* read) noexcept {
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
    Py_CLEAR(read->held);
    Py_XSETREF(read->reader->unread, bytes.release());
}

/// read(2) into the caller's buffer; or into the loop's buffer, and from there into bytes of the
/// right size.
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
        note_end(reader->loop, place_of(reader)); // a hung-up tty stays readable for ever
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
    // Checked last: making the waiter may have collected garbage, whose finalizers run Python code.
    if (!may_read(reader)) {
        Py_DECREF(waiter);
        return false;
    }
    reader->immediate = 0;
    read->waiter = waiter;
    return begin_wait(reader->loop, Direction::read, place_of(reader), waiter);
}

} // namespace

SocketDescriptor place_of(SerialReaderObject* reader) noexcept {
    return {.socket = as_object(reader), .fd = reader->fd};
}

bool is_open(SerialReaderObject* reader) noexcept {
    if (reader->closed_error != nullptr) {
        raise_closed(reader);
    }
    return reader->closed_error == nullptr;
}

bool may_read(SerialReaderObject* reader) noexcept {
    return is_open(reader) && check_open(reader->loop);
}

bool must_yield(SerialReaderObject* reader) noexcept {
    ++reader->immediate;
    if (reader->immediate < SerialReaderObject::immediate_limit &&
        !reader->loop->io->has_ready_work() && !reader->slice.is_over()) {
        return false;
    }
    reader->immediate = 0;
    return true;
}

bool runs_here(const SerialReaderObject* reader) noexcept {
    const LoopObject* loop = reader->loop;
    return loop->owner_thread == PyThread_get_thread_ident() && loop->thread_id != nullptr &&
           loop->thread_id != Py_None;
}

PySendResult SerialReadObject::advance(bool /*first*/, PyObject* /*value*/,
                                       PyObject** result) noexcept {
    if (held != nullptr) {
        reader->slice.begin();
        *result = std::exchange(held, nullptr);
        return PYGEN_RETURN;
    }
    const bool woken = waiter != nullptr;
    if (woken) {
        reader->slice.begin();
    }
    stop_waiting(this);
    Ref received;
    const Outcome outcome = attempt(this, received);
    if (outcome == Outcome::blocked && wait_until_readable(this)) {
        *result = Py_NewRef(as_object(waiter));
        return PYGEN_NEXT;
    }
    if (outcome == Outcome::done && !woken && must_yield(reader)) {
        held = received.release();
        *result = Py_NewRef(Py_None);
        return PYGEN_NEXT;
    }
    *result = received.release();
    return outcome == Outcome::done ? PYGEN_RETURN : PYGEN_ERROR;
}

void SerialReadObject::release() noexcept {
    stop_waiting(this);
    store_unread(this);
    view.release();
}

int SerialReadObject::visit(visitproc visit, void* arg) const noexcept {
    Py_VISIT(waiter);
    Py_VISIT(held);
    Py_VISIT(view.owner());
    return 0;
}

namespace {

// ---- the reader
// -----------------------------------------------------------------------------------

SerialReadObject* make_read(SerialReaderObject* reader) noexcept {
    auto* read = PyObject_GC_New(SerialReadObject, reader->loop->state->serial_read_type);
    if (read != nullptr) {
        read->reader = reinterpret_cast<SerialReaderObject*>(Py_NewRef(as_object(reader)));
        read->waiter = nullptr;
        read->held = nullptr;
        new (&read->view) BufferView;
        read->size = 0;
        read->stage = AwaitStage::created;
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

PyObject* input_waiting(PyObject* self, PyObject* /*unused*/) {
    SerialReaderObject* reader = reader_of(self);
    if (reader->closed_error != nullptr) {
        return raise_closed(reader);
    }
    int count = 0;
    if (::ioctl(reader->fd, FIONREAD, &count) != 0) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return PyLong_FromLong(count);
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
    drop_timer(reader);
    if (!reader->loop->closed) {
        wake_all(reader->loop, Direction::read, place_of(reader));
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
        new (&reader->slice) io::TimeSlice(SerialReaderObject::immediate_time);
        reader->slice.begin();
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
    drop_timer(reader);
    Py_CLEAR(reader->loop);
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef reader_methods[] = {
    {"receive", &receive, METH_O,
     "An awaitable of up to `size` bytes; b'' at a hang-up. None if its loop does not run here."},
    {"receive_into", &receive_into, METH_O,
     "An awaitable of the number of bytes put into a writable buffer; otherwise as receive()."},
    {"input_waiting", &input_waiting, METH_NOARGS,
     "The number of bytes that can be received without waiting."},
    {"exchange", &exchange, METH_VARARGS,
     "exchange(request, delimiter, length, silence, seconds, limit, refuses_strays): an awaitable "
     "of (data, end, taken, sent_at, first_byte_at, last_byte_at), or of None where bytes wait "
     "that "
     "nobody asked for. None if its loop does not run here."},
    {"forget_input", &forget_input, METH_NOARGS, "Drop what a waiting exchange has read."},
    {"take_unread", &take_unread, METH_NOARGS, "Take the bytes that a cancelled receive had read."},
    {"close", &close_reader, METH_O,
     "Forget the descriptor. Waiting and later receives raise what the callable returns."},
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
    state->serial_read_type = SerialReadObject::add_type(
        module, "penstock._core.SerialRead", "A receive from a serial port, to be awaited once.");
    if (state->serial_read_type == nullptr) {
        return false;
    }
    state->serial_reader_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &reader_spec, nullptr));
    return state->serial_reader_type != nullptr &&
           PyModule_AddType(module, state->serial_reader_type) == 0;
}

} // namespace penstock::python
