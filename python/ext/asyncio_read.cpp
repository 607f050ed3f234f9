// The waits of asyncio's own streams, native where a transport of this loop feeds them: `read`,
// `_wait_for_data` (on which readexactly, readuntil and readline stand) and `_drain_helper`.
//
// The reader keeps asyncio's private attributes, and they stay true: whoever looks at `_buffer` or
// `_waiter`, or feeds the reader himself, finds what asyncio's code would leave there. Rejected: a native
// reader behind the attributes, which would miss a `_buffer` that is changed in place.

#include "asyncio_read.hpp"

#include "coroutine_protocol.hpp"

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
    PyObject* caller; ///< `_wait_for_data`'s argument; null for `read`
    PyObject* wakeup; ///< the waiting task's callback
    PyObject* context;
    PyObject* cancel_message;
    PyObject* exception; ///< what set_exception() was given
    const char* data;    ///< while the task is resumed: what arrived, in somebody else's memory
    std::size_t size;
    Py_ssize_t count;
    State state;
    bool blocking; ///< `_asyncio_future_blocking`
    bool done;
    bool cancelled;
};

using State = AsyncioReadObject::State;

AsyncioReadObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<AsyncioReadObject*>(object);
}

const ModuleState* module_of(const AsyncioReadObject* read) noexcept {
    return state_of(Py_TYPE(read));
}

bool is_true(PyObject* object, PyObject* name) noexcept {
    const Ref value(PyObject_GetAttr(object, name));
    return value && PyObject_IsTrue(value.get()) > 0;
}

/// The exception set on the reader is raised, or something else went wrong.
bool raise_reader_exception(const ModuleState* state, PyObject* reader) noexcept {
    Ref exception(PyObject_GetAttr(reader, state->name_exception));
    if (!exception) {
        return true;
    }
    if (exception.get() == Py_None) {
        return false;
    }
    raise_exception(std::move(exception));
    return true;
}

bool resume_transport(const ModuleState* state, PyObject* reader) noexcept {
    const Ref transport(PyObject_SetAttr(reader, state->name_paused, Py_False) == 0
                            ? PyObject_GetAttr(reader, state->name_transport)
                            : nullptr);
    return transport && Ref(PyObject_CallMethodNoArgs(transport.get(), state->name_resume_reading));
}

/// `StreamReader._maybe_resume_transport`.
bool resume_transport_if_drained(const ModuleState* state, PyObject* reader,
                                 Py_ssize_t left) noexcept {
    const Ref paused(PyObject_GetAttr(reader, state->name_paused));
    if (!paused || paused.get() == Py_False) {
        return static_cast<bool>(paused);
    }
    const Ref limit(PyObject_GetAttr(reader, state->name_limit));
    const Ref size(limit ? PyLong_FromSsize_t(left) : nullptr);
    const int within = size ? PyObject_RichCompareBool(size.get(), limit.get(), Py_LE) : -1;
    return within == 0 || (within > 0 && resume_transport(state, reader));
}

/// Up to `count` bytes from the front of the reader's buffer. Null with an exception set.
PyObject* take(const ModuleState* state, PyObject* reader, PyObject* buffer,
               Py_ssize_t count) noexcept {
    const Py_ssize_t size = PyByteArray_GET_SIZE(buffer);
    const Py_ssize_t taken = std::min(count, size);
    Ref bytes(PyBytes_FromStringAndSize(PyByteArray_AS_STRING(buffer), taken));
    if (!bytes || (taken > 0 && PySequence_DelSlice(buffer, 0, taken) != 0) ||
        !resume_transport_if_drained(state, reader, size - taken)) {
        return nullptr;
    }
    return bytes.release();
}

/// The same of what arrives right now; the rest goes to the buffer, which is empty.
PyObject* take_arriving(AsyncioReadObject* read) noexcept {
    const ModuleState* state = module_of(read);
    const char* data = std::exchange(read->data, nullptr);
    const auto size = static_cast<Py_ssize_t>(read->size);
    const Py_ssize_t taken = std::min(read->count, size);
    Ref bytes(PyBytes_FromStringAndSize(data, taken));
    if (!bytes) {
        return nullptr;
    }
    if (taken < size) {
        const Ref buffer(PyObject_GetAttr(read->reader, state->name_buffer));
        if (!buffer ||
            !append_to_buffer(buffer.get(), data + taken, static_cast<std::size_t>(size - taken))) {
            return nullptr;
        }
    }
    return bytes.release();
}

/// Becomes the reader's `_waiter`. False with an exception set.
bool begin_to_wait(AsyncioReadObject* read) noexcept {
    const ModuleState* state = module_of(read);
    const Ref waiter(PyObject_GetAttr(read->reader, state->name_waiter));
    if (!waiter) {
        return false;
    }
    if (waiter.get() != Py_None) {
        PyErr_Format(PyExc_RuntimeError,
                     "%S() called while another coroutine is already waiting for incoming data",
                     read->caller != nullptr ? read->caller : state->name_read);
        return false;
    }
    if (read->caller != nullptr && is_true(read->reader, state->name_eof)) {
        PyErr_SetString(PyExc_AssertionError, "_wait_for_data after EOF");
        return false;
    }
    if (is_true(read->reader, state->name_paused) && !resume_transport(state, read->reader)) {
        return false;
    }
    if (PyErr_Occurred() != nullptr ||
        PyObject_SetAttr(read->reader, state->name_waiter, as_object(read)) != 0) {
        return false;
    }
    read->state = State::waiting;
    read->blocking = true;
    return true;
}

bool has_data_or_end(const ModuleState* state, PyObject* reader, PyObject* buffer) noexcept {
    return PyByteArray_GET_SIZE(buffer) > 0 || is_true(reader, state->name_eof);
}

/// The first step: `Py_None` for "waits", the result, or null with an exception set.
PySendResult begin(AsyncioReadObject* read, PyObject** result) noexcept {
    const ModuleState* state = module_of(read);
    *result = nullptr;
    if (read->caller == nullptr) {
        if (raise_reader_exception(state, read->reader)) {
            return PYGEN_ERROR;
        }
        const Ref buffer(PyObject_GetAttr(read->reader, state->name_buffer));
        if (!buffer) {
            return PYGEN_ERROR;
        }
        if (has_data_or_end(state, read->reader, buffer.get())) {
            *result = take(state, read->reader, buffer.get(), read->count);
            return *result != nullptr ? PYGEN_RETURN : PYGEN_ERROR;
        }
    }
    if (PyErr_Occurred() != nullptr || !begin_to_wait(read)) {
        return PYGEN_ERROR;
    }
    *result = Py_NewRef(as_object(read));
    return PYGEN_NEXT;
}

/// What `finally: self._waiter = None` does, if it is still this one.
bool stop_waiting(AsyncioReadObject* read) noexcept {
    const ModuleState* state = module_of(read);
    const Ref waiter(PyObject_GetAttr(read->reader, state->name_waiter));
    return waiter && (waiter.get() != as_object(read) ||
                      PyObject_SetAttr(read->reader, state->name_waiter, Py_None) == 0);
}

/// The step after the wait.
PyObject* end(AsyncioReadObject* read) noexcept {
    if (!stop_waiting(read)) {
        return nullptr;
    }
    if (read->caller != nullptr) {
        return Py_NewRef(Py_None);
    }
    if (read->data != nullptr) {
        return take_arriving(read);
    }
    const ModuleState* state = module_of(read);
    const Ref buffer(PyObject_GetAttr(read->reader, state->name_buffer));
    return buffer ? take(state, read->reader, buffer.get(), read->count) : nullptr;
}

PySendResult read_send(PyObject* self, PyObject* /*value*/, PyObject** result) {
    AsyncioReadObject* read = self_of(self);
    const Ref alive = Ref::borrow(self);
    if (read->state == State::finished) {
        PyErr_SetString(PyExc_RuntimeError, "cannot reuse already awaited coroutine");
        *result = nullptr;
        return PYGEN_ERROR;
    }
    if (read->state == State::waiting && !read->done) {
        read->blocking = true;
        *result = Py_NewRef(self);
        return PYGEN_NEXT;
    }
    PySendResult sent = PYGEN_RETURN;
    if (read->state == State::fresh) {
        sent = begin(read, result);
    } else {
        *result = end(read);
        sent = *result != nullptr ? PYGEN_RETURN : PYGEN_ERROR;
    }
    if (sent != PYGEN_NEXT) {
        read->state = State::finished;
    }
    return sent;
}

PyObject* read_next(PyObject* self) {
    PyObject* result = nullptr;
    if (read_send(self, Py_None, &result) != PYGEN_RETURN) {
        return result;
    }
    const Ref value(result);
    raise_stop(value.get());
    return nullptr;
}

PyObject* read_send_method(PyObject* self, PyObject* /*value*/) {
    PyObject* result = nullptr;
    if (read_send(self, Py_None, &result) != PYGEN_RETURN) {
        return result;
    }
    const Ref value(result);
    const Ref stop(PyObject_CallOneArg(PyExc_StopIteration, value.get()));
    if (stop) {
        PyErr_SetObject(PyExc_StopIteration, stop.get());
    }
    return nullptr;
}

/// Ends the wait; a fresh one never began.
bool give_up(AsyncioReadObject* read) noexcept {
    const bool waiting = read->state == State::waiting;
    read->state = State::finished;
    return !waiting || stop_waiting(read);
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

PyObject* read_await(PyObject* self) {
    return Py_NewRef(self);
}

// ---- the future that a task sees, and that asyncio's reader calls its waiter ------------------------

PyObject* read_add_done_callback(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                                 PyObject* keywords) {
    AsyncioReadObject* read = self_of(self);
    if (count != 1) {
        PyErr_SetString(PyExc_TypeError, "add_done_callback() takes one callback");
        return nullptr;
    }
    Py_XSETREF(read->wakeup, Py_NewRef(arguments[0]));
    const bool has_context = keywords != nullptr && PyTuple_GET_SIZE(keywords) == 1;
    PyObject* context =
        has_context && arguments[1] != Py_None ? Py_NewRef(arguments[1]) : PyContext_CopyCurrent();
    Py_XSETREF(read->context, context);
    return context != nullptr ? Py_NewRef(Py_None) : nullptr;
}

/// Lets the waiting task go on in the next iteration, as a future's callbacks do.
bool schedule_wakeup(AsyncioReadObject* read) noexcept {
    read->done = true;
    const Ref wakeup(std::exchange(read->wakeup, nullptr));
    const Ref context(std::exchange(read->context, nullptr));
    if (!wakeup) {
        return true;
    }
    const ModuleState* state = module_of(read);
    const Ref loop(PyObject_GetAttr(read->reader, state->name_private_loop));
    const Ref call_soon(loop ? PyObject_GetAttr(loop.get(), state->name_call_soon) : nullptr);
    if (!call_soon) {
        return false;
    }
    PyObject* stack[] = {wakeup.get(), as_object(read), context.get()};
    return static_cast<bool>(
        Ref(PyObject_Vectorcall(call_soon.get(), stack, 2, state->keywords_context)));
}

PyObject* read_result(PyObject* self, PyObject* /*unused*/) {
    AsyncioReadObject* read = self_of(self);
    if (read->cancelled) {
        PyObject* message = read->cancel_message;
        return call_rare_path(state_of(Py_TYPE(self)), "raise_cancelled", &message,
                              message != nullptr ? 1 : 0)
            .release();
    }
    if (read->exception != nullptr) {
        raise_exception(Ref::borrow(read->exception));
        return nullptr;
    }
    Py_RETURN_NONE; // the value comes when the task sends
}

PyObject* read_cancel(PyObject* self, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"msg", nullptr};
    PyObject* message = nullptr;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O:cancel", const_cast<char**>(names),
                                     &message)) {
        return nullptr;
    }
    AsyncioReadObject* read = self_of(self);
    if (read->state != State::waiting || read->done) {
        Py_RETURN_FALSE;
    }
    read->cancelled = true;
    Py_XSETREF(read->cancel_message, Py_XNewRef(message));
    return schedule_wakeup(read) ? Py_NewRef(Py_True) : nullptr;
}

PyObject* read_set_result(PyObject* self, PyObject* /*value*/) {
    AsyncioReadObject* read = self_of(self);
    return read->done || schedule_wakeup(read) ? Py_NewRef(Py_None) : nullptr;
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
    return schedule_wakeup(read) ? Py_NewRef(Py_None) : nullptr;
}

PyObject* read_done(PyObject* self, PyObject* /*unused*/) {
    const AsyncioReadObject* read = self_of(self);
    return PyBool_FromLong(static_cast<long>(read->done || read->state != State::waiting));
}

PyObject* read_cancelled(PyObject* self, PyObject* /*unused*/) {
    return PyBool_FromLong(static_cast<long>(self_of(self)->cancelled));
}

PyObject* read_get_loop(PyObject* self, PyObject* /*unused*/) {
    return PyObject_GetAttr(self_of(self)->reader, state_of(Py_TYPE(self))->name_private_loop);
}

// As for the native streams' operation: a task asks the object, asyncio.isfuture() the class, and
// must not find it there.

PyObject* read_getattro(PyObject* self, PyObject* name) {
    if (name == state_of(Py_TYPE(self))->name_future_blocking) {
        return PyBool_FromLong(static_cast<long>(self_of(self)->blocking));
    }
    return PyObject_GenericGetAttr(self, name);
}

int read_setattro(PyObject* self, PyObject* name, PyObject* value) {
    if (PyUnicode_CompareWithASCIIString(name, "_asyncio_future_blocking") == 0) {
        self_of(self)->blocking = value == Py_True;
        return 0;
    }
    return PyObject_GenericSetAttr(self, name, value);
}

int read_traverse(PyObject* self, visitproc visit, void* arg) {
    AsyncioReadObject* read = self_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(read->reader);
    Py_VISIT(read->caller);
    Py_VISIT(read->wakeup);
    Py_VISIT(read->context);
    Py_VISIT(read->cancel_message);
    Py_VISIT(read->exception);
    return 0;
}

int read_clear(PyObject* self) {
    AsyncioReadObject* read = self_of(self);
    Py_CLEAR(read->caller);
    Py_CLEAR(read->wakeup);
    Py_CLEAR(read->context);
    Py_CLEAR(read->cancel_message);
    Py_CLEAR(read->exception);
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
    {"get_loop", &read_get_loop, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot read_slots[] = {
    {Py_tp_doc, const_cast<char*>("A wait of asyncio's stream reader, to be awaited once.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(&read_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&read_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&read_clear)},
    {Py_am_await, reinterpret_cast<void*>(&read_await)},
    {Py_am_send, reinterpret_cast<void*>(&read_send)},
    {Py_tp_iter, reinterpret_cast<void*>(&read_await)},
    {Py_tp_iternext, reinterpret_cast<void*>(&read_next)},
    {Py_tp_methods, read_methods},
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
    read->wakeup = nullptr;
    read->context = nullptr;
    read->cancel_message = nullptr;
    read->exception = nullptr;
    read->data = nullptr;
    read->size = 0;
    read->count = count;
    read->state = State::fresh;
    read->blocking = false;
    read->done = false;
    read->cancelled = false;
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

/// `FlowControlMixin._drain_helper()`: at once in almost every case.
PyObject* native_drain_helper(PyObject* self, PyTypeObject* defining, PyObject* const* arguments,
                              Py_ssize_t count, PyObject* keywords) {
    const ModuleState* state = state_of(defining);
    const Ref lost(PyObject_GetAttr(self, state->name_private_connection_lost));
    const Ref paused(lost ? PyObject_GetAttr(self, state->name_paused) : nullptr);
    if (!paused) {
        return nullptr;
    }
    if (count == 0 && lost.get() == Py_False && paused.get() == Py_False) {
        return Py_NewRef(state->completed);
    }
    const Ref inherited(PyObject_GetAttrString(state->asyncio_protocol_type, "_drain_helper"));
    const Ref bound(inherited ? PyMethod_New(inherited.get(), self) : nullptr);
    return bound ? PyObject_Vectorcall(bound.get(), arguments, static_cast<std::size_t>(count),
                                       keywords)
                 : nullptr;
}

constexpr int native_method = METH_METHOD | METH_FASTCALL | METH_KEYWORDS;

PyMethodDef waits_methods[] = {
    {"read", as_function(&native_read), native_method, "Read up to n bytes."},
    {"_wait_for_data", as_function(&native_wait_for_data), native_method, nullptr},
    {"_drain_helper", as_function(&native_drain_helper), native_method, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot waits_slots[] = {
    {Py_tp_doc,
     const_cast<char*>("The native waits, as methods for subclasses of asyncio's streams.")},
    {Py_tp_methods, waits_methods},
    {0, nullptr},
};

PyType_Spec waits_spec = {
    .name = "penstock._core.AsyncioWaits",
    .basicsize = sizeof(PyObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = waits_slots,
};

} // namespace

bool waits_natively(const ModuleState* state, PyObject* waiter) noexcept {
    return Py_IS_TYPE(waiter, state->asyncio_read_type) && !self_of(waiter)->done &&
           self_of(waiter)->wakeup != nullptr;
}

bool resume_native_read(const ModuleState* state, PyObject* waiter, PyObject* reader,
                        const char* data, std::size_t size) noexcept {
    const Ref alive = Ref::borrow(waiter);
    AsyncioReadObject* read = self_of(waiter);
    // Only a task of C goes straight from its wake-up to the read; before anyone else can run, the
    // bytes must be the reader's own.
    const bool direct = read->caller == nullptr && PyCFunction_Check(read->wakeup);
    if (direct) {
        read->data = data;
        read->size = size;
    } else {
        const Ref buffer(PyObject_GetAttr(reader, state->name_buffer));
        if (!buffer || !append_to_buffer(buffer.get(), data, size)) {
            return false;
        }
    }
    if (PyObject_SetAttr(reader, state->name_waiter, Py_None) != 0) {
        return false;
    }
    read->done = true;
    const Ref wakeup(std::exchange(read->wakeup, nullptr));
    const Ref context(std::exchange(read->context, nullptr));
    if (PyContext_Enter(context.get()) != 0) {
        return false;
    }
    const Ref result(PyObject_CallOneArg(wakeup.get(), waiter));
    Ref exception = take_exception();
    PyContext_Exit(context.get());
    if (read->data != nullptr) {
        // The task was being cancelled and did not come to read.
        const char* left = std::exchange(read->data, nullptr);
        const Ref buffer(PyObject_GetAttr(reader, state->name_buffer));
        if (!buffer || !append_to_buffer(buffer.get(), left, size)) {
            return false;
        }
    }
    if (exception) {
        raise_exception(std::move(exception));
        return false;
    }
    return static_cast<bool>(result);
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
