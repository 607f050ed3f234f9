// The waits of asyncio's own stream reader, native where a transport of this loop feeds it: `read` and
// `_wait_for_data`, on which readexactly, readuntil and readline stand.
//
// The reader keeps asyncio's private attributes, and they stay true: whoever looks at `_buffer` or
// `_waiter`, or feeds the reader himself, finds what asyncio's code would leave there. Rejected: a native
// reader behind the attributes, which would miss a `_buffer` that is changed in place.

#include "asyncio_read.hpp"

#include "coroutine_protocol.hpp"
#include "waiting_task.hpp"

#include <algorithm>
#include <cstring>

namespace penstock::python {

namespace {

/// What `read(n)` and `_wait_for_data(name)` return: a coroutine to be awaited once, and while it waits
/// the future that is the reader's `_waiter`.
struct AsyncioReadObject {
    enum class State : unsigned char { fresh, waiting, finished };

    PyObject ob_base;
    PyObject* reader;
    PyObject* caller;    ///< `_wait_for_data`'s argument; null for `read`
    PyObject* exception; ///< what set_exception() was given
    WaitingTask task;
    const char* data; ///< while the task is resumed: what arrived, in somebody else's memory
    std::size_t size;
    Py_ssize_t count;
    State state;
    bool done; ///< it is to wait no longer
};

using State = AsyncioReadObject::State;

AsyncioReadObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<AsyncioReadObject*>(object);
}

const ModuleState* module_of(const AsyncioReadObject* read) noexcept {
    return state_of(Py_TYPE(read));
}

// A reader is exactly of the class that penstock.loop.fed_streams names, and asyncio's __init__ puts every
// attribute into the instance: a look into its dictionary is a fifth of what an attribute costs.

/// An attribute, borrowed. Null with an exception set.
PyObject* attribute(PyObject* attributes, PyObject* name) noexcept {
    PyObject* value = PyDict_GetItemWithError(attributes, name);
    if (value == nullptr && PyErr_Occurred() == nullptr) {
        PyErr_SetObject(PyExc_AttributeError, name);
    }
    return value;
}

/// 1 or 0; -1 with an exception set.
int truth(PyObject* attributes, PyObject* name) noexcept {
    PyObject* value = attribute(attributes, name);
    return value != nullptr ? PyObject_IsTrue(value) : -1;
}

/// The reader's `_buffer`, borrowed. Null with an exception set.
PyObject* buffer_of(PyObject* attributes, const ModuleState* state) noexcept {
    PyObject* buffer = attribute(attributes, state->name_buffer);
    if (buffer != nullptr && !PyByteArray_Check(buffer)) {
        PyErr_Format(PyExc_TypeError, "_buffer of a StreamReader must be a bytearray, not %s",
                     Py_TYPE(buffer)->tp_name);
        return nullptr;
    }
    return buffer;
}

/// Raises the exception that was set on the reader, if there is one. False then, or on failure.
bool has_no_exception(const ModuleState* state, PyObject* attributes) noexcept {
    PyObject* exception = attribute(attributes, state->name_exception);
    if (exception == nullptr || exception == Py_None) {
        return exception != nullptr;
    }
    raise_exception(Ref::borrow(exception));
    return false;
}

bool resume_transport(const ModuleState* state, PyObject* attributes) noexcept {
    if (PyDict_SetItem(attributes, state->name_paused, Py_False) != 0) {
        return false;
    }
    const Ref transport = Ref::borrow(attribute(attributes, state->name_transport));
    return transport && Ref(PyObject_CallMethodNoArgs(transport.get(), state->name_resume_reading));
}

/// `StreamReader._maybe_resume_transport`.
bool resume_transport_if_drained(const ModuleState* state, PyObject* attributes,
                                 Py_ssize_t left) noexcept {
    const int paused = truth(attributes, state->name_paused);
    if (paused <= 0) {
        return paused == 0;
    }
    const Ref limit = Ref::borrow(attribute(attributes, state->name_limit));
    const Ref size(limit ? PyLong_FromSsize_t(left) : nullptr);
    const int within = size ? PyObject_RichCompareBool(size.get(), limit.get(), Py_LE) : -1;
    return within == 0 || (within > 0 && resume_transport(state, attributes));
}

/// Up to `count` bytes from the front of the reader's buffer. Null with an exception set.
PyObject* take(const ModuleState* state, PyObject* attributes, Py_ssize_t count) noexcept {
    const Ref buffer = Ref::borrow(buffer_of(attributes, state));
    if (!buffer) {
        return nullptr;
    }
    const Py_ssize_t size = PyByteArray_GET_SIZE(buffer.get());
    const Py_ssize_t taken = std::min(count, size);
    Ref bytes(PyBytes_FromStringAndSize(PyByteArray_AS_STRING(buffer.get()), taken));
    if (!bytes || (taken > 0 && PySequence_DelSlice(buffer.get(), 0, taken) != 0) ||
        !resume_transport_if_drained(state, attributes, size - taken)) {
        return nullptr;
    }
    return bytes.release();
}

/// Puts what arrived into the reader's buffer after all: before what came there later. False with an
/// exception set.
bool give_to_buffer(const ModuleState* state, PyObject* attributes, const char* data,
                    std::size_t size) noexcept {
    const Ref buffer = Ref::borrow(buffer_of(attributes, state));
    if (!buffer) {
        return false;
    }
    if (PyByteArray_GET_SIZE(buffer.get()) == 0) {
        return append_to_buffer(buffer.get(), data, size);
    }
    const Ref bytes(PyBytes_FromStringAndSize(data, static_cast<Py_ssize_t>(size)));
    return bytes && PySequence_SetSlice(buffer.get(), 0, 0, bytes.get()) == 0;
}

/// The same of what arrives right now; the rest goes to the buffer. Without memory for the bytes all of
/// it stays with `read`.
PyObject* take_arriving(AsyncioReadObject* read, PyObject* attributes) noexcept {
    const auto size = static_cast<Py_ssize_t>(read->size);
    const Py_ssize_t taken = std::min(read->count, size);
    Ref bytes(PyBytes_FromStringAndSize(read->data, taken));
    if (!bytes) {
        return nullptr;
    }
    const char* data = std::exchange(read->data, nullptr);
    if (taken < size && !give_to_buffer(module_of(read), attributes, data + taken,
                                        static_cast<std::size_t>(size - taken))) {
        return nullptr;
    }
    return bytes.release();
}

/// Becomes the reader's `_waiter`. False with an exception set.
bool begin_to_wait(AsyncioReadObject* read, PyObject* attributes) noexcept {
    const ModuleState* state = module_of(read);
    PyObject* waiter = attribute(attributes, state->name_waiter);
    if (waiter == nullptr) {
        return false;
    }
    if (waiter != Py_None) {
        PyErr_Format(PyExc_RuntimeError,
                     "%S() called while another coroutine is already waiting for incoming data",
                     read->caller != nullptr ? read->caller : state->name_read);
        return false;
    }
    const int ended = read->caller != nullptr ? truth(attributes, state->name_eof) : 0;
    if (ended > 0) {
        PyErr_SetString(PyExc_AssertionError, "_wait_for_data after EOF");
    }
    const int paused = ended == 0 ? truth(attributes, state->name_paused) : -1;
    if (paused < 0 || (paused > 0 && !resume_transport(state, attributes)) ||
        PyDict_SetItem(attributes, state->name_waiter, as_object(read)) != 0) {
        return false;
    }
    read->state = State::waiting;
    read->task.blocking = true;
    return true;
}

/// Whether `read` has something to take at once: 1 or 0; -1 with an exception set.
int has_data_or_end(const ModuleState* state, PyObject* attributes) noexcept {
    PyObject* buffer = buffer_of(attributes, state);
    if (buffer == nullptr) {
        return -1;
    }
    return PyByteArray_GET_SIZE(buffer) > 0 ? 1 : truth(attributes, state->name_eof);
}

/// The first step.
PySendResult begin(AsyncioReadObject* read, PyObject* attributes, PyObject** result) noexcept {
    const ModuleState* state = module_of(read);
    *result = nullptr;
    // Also where a read goes on that was woken by data: when the connection was lost before its task ran,
    // asyncio's own code waits for ever.
    if (!has_no_exception(state, attributes)) {
        return PYGEN_ERROR;
    }
    if (read->caller == nullptr) {
        const int ready = has_data_or_end(state, attributes);
        if (ready != 0) {
            *result = ready > 0 ? take(state, attributes, read->count) : nullptr;
            return *result != nullptr ? PYGEN_RETURN : PYGEN_ERROR;
        }
    }
    if (!begin_to_wait(read, attributes)) {
        return PYGEN_ERROR;
    }
    *result = Py_NewRef(as_object(read));
    return PYGEN_NEXT;
}

/// What `finally: self._waiter = None` does, if it is still this one.
bool stop_waiting(AsyncioReadObject* read, PyObject* attributes) noexcept {
    PyObject* name = module_of(read)->name_waiter;
    PyObject* waiter = attribute(attributes, name);
    return waiter == as_object(read) ? PyDict_SetItem(attributes, name, Py_None) == 0
                                     : waiter != nullptr;
}

/// The step after the wait.
PyObject* end(AsyncioReadObject* read, PyObject* attributes) noexcept {
    if (!stop_waiting(read, attributes)) {
        return nullptr;
    }
    if (read->caller != nullptr) {
        return Py_NewRef(Py_None);
    }
    return read->data != nullptr ? take_arriving(read, attributes)
                                 : take(module_of(read), attributes, read->count);
}

PySendResult read_send(PyObject* self, PyObject* /*value*/, PyObject** result) {
    AsyncioReadObject* read = self_of(self);
    const Ref alive = Ref::borrow(self);
    *result = nullptr;
    if (!may_resume(false, read->state == State::finished)) {
        return PYGEN_ERROR;
    }
    if (read->state == State::waiting && !read->done) {
        read->task.blocking = true;
        *result = Py_NewRef(self);
        return PYGEN_NEXT;
    }
    const Ref attributes(PyObject_GenericGetDict(read->reader, nullptr));
    PySendResult sent = PYGEN_ERROR;
    if (attributes && read->state == State::fresh) {
        sent = begin(read, attributes.get(), result);
    } else if (attributes) {
        *result = end(read, attributes.get());
        sent = *result != nullptr ? PYGEN_RETURN : PYGEN_ERROR;
    }
    if (sent != PYGEN_NEXT) {
        read->state = State::finished;
    }
    return sent;
}

PyObject* read_next(PyObject* self) {
    PyObject* result = nullptr;
    const PySendResult sent = read_send(self, Py_None, &result);
    return iterator_step(self, sent, result);
}

PyObject* read_send_method(PyObject* self, PyObject* /*value*/) {
    PyObject* result = nullptr;
    const PySendResult sent = read_send(self, Py_None, &result);
    return send_step(sent, result);
}

/// Ends the wait; a fresh one never began.
bool give_up(AsyncioReadObject* read) noexcept {
    const bool waiting = read->state == State::waiting;
    read->state = State::finished;
    if (!waiting) {
        return true;
    }
    const Ref attributes(PyObject_GenericGetDict(read->reader, nullptr));
    return attributes && stop_waiting(read, attributes.get());
}

PyObject* read_throw(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    const Ref alive = Ref::borrow(self);
    if (give_up(self_of(self))) {
        raise_thrown(arguments, count);
    }
    return nullptr;
}

PyObject* read_close(PyObject* self, PyObject* /*unused*/) {
    const Ref alive = Ref::borrow(self);
    return give_up(self_of(self)) ? Py_NewRef(Py_None) : nullptr;
}

// ---- the future that a task sees, and that asyncio's reader calls its waiter ------------------------

PyObject* read_add_done_callback(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                                 PyObject* keywords) {
    return set_wakeup(self_of(self)->task, arguments, count, keywords);
}

/// Lets the waiting task go on in the next iteration, as a future's callbacks do.
bool finish_wait(AsyncioReadObject* read) noexcept {
    read->done = true;
    ModuleState* state = state_of(Py_TYPE(read));
    const Ref loop(PyObject_GetAttr(read->reader, state->name_private_loop));
    return loop && step_later(state, read->task, as_object(read), loop.get());
}

PyObject* read_result(PyObject* self, PyObject* /*unused*/) {
    AsyncioReadObject* read = self_of(self);
    if (read->exception != nullptr && !read->task.cancelled) {
        raise_exception(Ref::borrow(read->exception));
        return nullptr;
    }
    return raise_if_cancelled(state_of(Py_TYPE(self)), read->task);
}

PyObject* read_cancel(PyObject* self, PyObject* arguments, PyObject* keywords) {
    AsyncioReadObject* read = self_of(self);
    if (read->state != State::waiting || read->done) {
        Py_RETURN_FALSE;
    }
    if (!note_cancel(read->task, arguments, keywords) || !finish_wait(read)) {
        return nullptr;
    }
    Py_RETURN_TRUE;
}

PyObject* read_set_result(PyObject* self, PyObject* /*value*/) {
    AsyncioReadObject* read = self_of(self);
    return read->done || finish_wait(read) ? Py_NewRef(Py_None) : nullptr;
}

PyObject* read_set_exception(PyObject* self, PyObject* exception) {
    AsyncioReadObject* read = self_of(self);
    if (read->done) {
        Py_RETURN_NONE;
    }
    const Ref instance(PyExceptionClass_Check(exception) ? PyObject_CallNoArgs(exception)
                                                         : Py_NewRef(exception));
    if (!instance) {
        return nullptr;
    }
    if (!PyExceptionInstance_Check(instance.get())) {
        PyErr_SetString(PyExc_TypeError, "invalid exception object");
        return nullptr;
    }
    Py_XSETREF(read->exception, Py_NewRef(instance.get()));
    return finish_wait(read) ? Py_NewRef(Py_None) : nullptr;
}

PyObject* read_done(PyObject* self, PyObject* /*unused*/) {
    const AsyncioReadObject* read = self_of(self);
    return PyBool_FromLong(static_cast<long>(read->done || read->state != State::waiting));
}

PyObject* read_cancelled(PyObject* self, PyObject* /*unused*/) {
    return PyBool_FromLong(static_cast<long>(self_of(self)->task.cancelled));
}

PyObject* get_loop_getter(PyObject* self, void* /*unused*/) {
    ModuleState* state = state_of(Py_TYPE(self));
    const Ref loop(PyObject_GetAttr(self_of(self)->reader, state->name_private_loop));
    return loop ? loop_getter(state, loop.get()) : nullptr;
}

PyObject* read_getattro(PyObject* self, PyObject* name) {
    return get_attribute(state_of(Py_TYPE(self)), self_of(self)->task, self, name,
                         &get_loop_getter);
}

int read_setattro(PyObject* self, PyObject* name, PyObject* value) {
    return set_attribute(self_of(self)->task, self, name, value);
}

int read_traverse(PyObject* self, visitproc visit, void* arg) {
    AsyncioReadObject* read = self_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(read->reader);
    Py_VISIT(read->caller);
    Py_VISIT(read->exception);
    return visit_task(read->task, visit, arg);
}

int read_clear(PyObject* self) {
    AsyncioReadObject* read = self_of(self);
    Py_CLEAR(read->caller);
    Py_CLEAR(read->exception);
    release(read->task);
    return 0;
}

void read_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    read_clear(self);
    Py_CLEAR(self_of(self)->reader);
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

PyMethodDef read_methods[] = {
    {"send", &read_send_method, METH_O, nullptr},
    {"throw", as_function(&read_throw), METH_FASTCALL, nullptr},
    {"close", &read_close, METH_NOARGS, nullptr},
    {"add_done_callback", as_function(&read_add_done_callback), METH_FASTCALL | METH_KEYWORDS,
     nullptr},
    {"result", &read_result, METH_NOARGS, nullptr},
    {"cancel", as_function(&read_cancel), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"set_result", &read_set_result, METH_O, nullptr},
    {"set_exception", &read_set_exception, METH_O, nullptr},
    {"done", &read_done, METH_NOARGS, nullptr},
    {"cancelled", &read_cancelled, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef read_attributes[] = {
    {"get_loop", &get_loop_getter, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot read_slots[] = {
    {Py_tp_doc, const_cast<char*>("A wait of asyncio's stream reader, to be awaited once.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(&read_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&read_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&read_clear)},
    {Py_am_await, reinterpret_cast<void*>(&await_itself)},
    {Py_am_send, reinterpret_cast<void*>(&read_send)},
    {Py_tp_iter, reinterpret_cast<void*>(&await_itself)},
    {Py_tp_iternext, reinterpret_cast<void*>(&read_next)},
    {Py_tp_methods, read_methods},
    {Py_tp_getset, read_attributes},
    {Py_tp_getattro, reinterpret_cast<void*>(&read_getattro)},
    {Py_tp_setattro, reinterpret_cast<void*>(&read_setattro)},
    {0, nullptr},
};

PyType_Spec read_spec = {
    .name = "penstock._core.AsyncioRead",
    .basicsize = sizeof(AsyncioReadObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = read_slots,
};

PyObject* make_wait(const ModuleState* state, PyObject* reader, PyObject* caller,
                    Py_ssize_t count) noexcept {
    auto* read = PyObject_GC_New(AsyncioReadObject, state->asyncio_read_type);
    if (read == nullptr) {
        return nullptr;
    }
    read->reader = Py_NewRef(reader);
    read->caller = Py_XNewRef(caller);
    read->exception = nullptr;
    read->task = {};
    read->data = nullptr;
    read->size = 0;
    read->count = count;
    read->state = State::fresh;
    read->done = false;
    PyObject_GC_Track(as_object(read));
    return as_object(read);
}

// ---- the methods that replace asyncio's --------------------------------------------------------------

/// `StreamReader.read(n=-1)`: native for a count above zero, asyncio's own else.
PyObject* native_read(PyObject* self, PyTypeObject* defining, PyObject* const* arguments,
                      Py_ssize_t count, PyObject* keywords) {
    const ModuleState* state = state_of(defining);
    if (count == 1 && keywords == nullptr && PyLong_CheckExact(arguments[0])) {
        const Py_ssize_t size = PyLong_AsSsize_t(arguments[0]);
        if (size > 0) {
            return make_wait(state, self, nullptr, size);
        }
        PyErr_Clear();
    }
    const Ref inherited(PyObject_GetAttr(state->asyncio_reader_type, state->name_read));
    const Ref bound(inherited ? PyMethod_New(inherited.get(), self) : nullptr);
    return bound ? PyObject_Vectorcall(bound.get(), arguments, static_cast<std::size_t>(count),
                                       keywords)
                 : nullptr;
}

PyObject* native_wait_for_data(PyObject* self, PyTypeObject* defining, PyObject* const* arguments,
                               Py_ssize_t count, PyObject* keywords) {
    if (count != 1 || (keywords != nullptr && PyTuple_GET_SIZE(keywords) > 0)) {
        PyErr_SetString(PyExc_TypeError, "_wait_for_data() takes the name of its caller");
        return nullptr;
    }
    return make_wait(state_of(defining), self, arguments[0], 0);
}

constexpr int native_method = METH_METHOD | METH_FASTCALL | METH_KEYWORDS;

PyMethodDef waits_methods[] = {
    {"read", as_function(&native_read), native_method, "Read up to n bytes."},
    {"_wait_for_data", as_function(&native_wait_for_data), native_method, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot waits_slots[] = {
    {Py_tp_doc,
     const_cast<char*>("The native waits, as methods for a subclass of asyncio's StreamReader.")},
    {Py_tp_methods, waits_methods},
    {0, nullptr},
};

PyType_Spec waits_spec = {
    .name = "penstock._core.AsyncioReaderWaits",
    .basicsize = sizeof(PyObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = waits_slots,
};

} // namespace

bool waits_natively(const ModuleState* state, PyObject* waiter) noexcept {
    return Py_IS_TYPE(waiter, state->asyncio_read_type) && !self_of(waiter)->done &&
           self_of(waiter)->task.wakeup != nullptr;
}

bool resume_native_read(ModuleState* state, PyObject* waiter, PyObject* attributes,
                        const char* data, std::size_t size) noexcept {
    const Ref alive = Ref::borrow(waiter);
    AsyncioReadObject* read = self_of(waiter);
    PyObject* buffer = buffer_of(attributes, state);
    // Only a task of C goes straight from its wake-up to the read; before anyone else can run, the
    // bytes must be in the reader's buffer.
    const bool direct = read->caller == nullptr && PyCFunction_Check(read->task.wakeup);
    if (buffer == nullptr || (!direct && !append_to_buffer(buffer, data, size)) ||
        PyDict_SetItem(attributes, state->name_waiter, Py_None) != 0) {
        return false;
    }
    if (direct) {
        read->data = data;
        read->size = size;
    }
    read->done = true;
    const bool stepped = step(state, read->task, waiter);
    if (read->data == nullptr) {
        return stepped;
    }
    // The task did not come to read: it had something else to do first, or no memory.
    Ref exception = stepped ? Ref() : take_exception();
    read->data = nullptr;
    PyObject* next = attribute(attributes, state->name_waiter);
    if (next == nullptr || !give_to_buffer(state, attributes, data, size) ||
        !wake_waiter(state, attributes, next)) {
        return false;
    }
    if (exception) {
        raise_exception(std::move(exception));
    }
    return stepped;
}

bool wake_waiter(const ModuleState* state, PyObject* attributes, PyObject* waiter) noexcept {
    if (waiter == Py_None) {
        return true;
    }
    const Ref alive = Ref::borrow(waiter);
    if (PyDict_SetItem(attributes, state->name_waiter, Py_None) != 0) {
        return false;
    }
    const Ref cancelled(PyObject_CallMethodNoArgs(waiter, state->name_cancelled));
    return cancelled && (cancelled.get() == Py_True ||
                         Ref(PyObject_CallMethodOneArg(waiter, state->name_set_result, Py_None)));
}

bool append_to_buffer(PyObject* buffer, const char* data, std::size_t size) noexcept {
    const Py_ssize_t before = PyByteArray_GET_SIZE(buffer);
    if (PyByteArray_Resize(buffer, before + static_cast<Py_ssize_t>(size)) != 0) {
        return false;
    }
    std::memcpy(PyByteArray_AS_STRING(buffer) + before, data, size);
    return true;
}

bool add_asyncio_read_types(PyObject* module, ModuleState* state) {
    state->asyncio_read_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &read_spec, nullptr));
    const Ref waits(PyType_FromModuleAndSpec(module, &waits_spec, nullptr));
    return state->asyncio_read_type != nullptr && waits &&
           PyModule_AddType(module, state->asyncio_read_type) == 0 &&
           PyModule_AddType(module, reinterpret_cast<PyTypeObject*>(waits.get())) == 0;
}

} // namespace penstock::python
