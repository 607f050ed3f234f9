// The native awaitable of asyncio's own StreamReader, where a transport of this loop feeds it: for
// `read`, and for `_wait_for_data`, which readexactly, readuntil and readline call.
//
// The reader keeps asyncio's private attributes with their meaning: code that inspects `_buffer` or
// `_waiter`, or feeds the reader itself, finds the same values as with asyncio's code. Rejected: a
// native buffer behind the attributes, which would miss a `_buffer` that is changed in place.

#include "streams/asyncio_read_awaitable.hpp"

#include "awaitable/native_awaitable.hpp"

#include <algorithm>
#include <cstring>

namespace penstock::python {

namespace {

/// What `read(n)` and `_wait_for_data(name)` return: a coroutine, and while it waits the future
/// that is the reader's `_waiter`.
struct AsyncioReadObject : NativeAwaitable<AsyncioReadObject> {
    static constexpr PyObject* ModuleState::* spare = &ModuleState::spare_asyncio_read;

    PyObject ob_base;
    PyObject* reader;
    PyObject* caller;    ///< `_wait_for_data`'s argument; null for `read`
    PyObject* exception; ///< the argument of set_exception()
    WaitingTask task;
    const char* data; ///< while the task is stepped: the bytes that arrived, borrowed
    std::size_t size;
    Py_ssize_t count;
    AwaitStage stage;
    bool done; ///< the wait is over

    [[nodiscard]] PyObject* owner() const noexcept { return reader; }
    [[nodiscard]] Ref owning_loop() const noexcept {
        return Ref(PyObject_GetAttr(reader, state()->name_private_loop));
    }
    [[nodiscard]] const char* name() const noexcept {
        return caller != nullptr ? "_wait_for_data" : "read";
    }
    [[nodiscard]] bool is_done() const noexcept { return done || stage != AwaitStage::suspended; }
    bool check_result() noexcept;
    bool wake_soon() noexcept;
    PySendResult advance(bool first, PyObject* value, PyObject** result) noexcept;
    bool abandon() noexcept;
    void release() noexcept;
    int visit(visitproc visit, void* arg) const noexcept;

    static PyObject* set_result(PyObject* self, PyObject* value) noexcept;
    static PyObject* set_exception(PyObject* self, PyObject* exception) noexcept;
    static std::array<PyMethodDef, 2> own_methods() noexcept;
};

// A reader is exactly of the class in penstock.loop._fed_streams, and asyncio's __init__ puts every
// attribute into the instance. A lookup in its dictionary costs a fifth of an attribute access.

/// An attribute's value, borrowed. Null with an exception set.
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

/// False with an exception set: the reader's own, or that of a failure.
bool has_no_exception(const ModuleState* state, PyObject* attributes) noexcept {
    PyObject* exception = attribute(attributes, state->name_exception);
    if (exception == nullptr || exception == Py_None) {
        return exception != nullptr;
    }
    raise_given(exception);
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

/// Puts received bytes that the task did not take into the reader's buffer, in front of bytes that
/// were added later. False with an exception set.
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

/// Up to `count` of the received bytes; the rest goes to the buffer. Null with an exception set;
/// without memory all of them stay in `read`.
PyObject* take_arriving(AsyncioReadObject* read, PyObject* attributes) noexcept {
    const auto size = static_cast<Py_ssize_t>(read->size);
    const Py_ssize_t taken = std::min(read->count, size);
    Ref bytes(PyBytes_FromStringAndSize(read->data, taken));
    if (!bytes) {
        return nullptr;
    }
    const char* data = std::exchange(read->data, nullptr);
    if (taken < size && !give_to_buffer(read->state(), attributes, data + taken,
                                        static_cast<std::size_t>(size - taken))) {
        return nullptr;
    }
    return bytes.release();
}

/// Becomes the reader's `_waiter`. False with an exception set.
bool begin_to_wait(AsyncioReadObject* read, PyObject* attributes) noexcept {
    const ModuleState* state = read->state();
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
    read->task.blocking = true;
    return true;
}

/// Whether `read` can complete at once: 1 or 0; -1 with an exception set.
int has_data_or_end(const ModuleState* state, PyObject* attributes) noexcept {
    PyObject* buffer = buffer_of(attributes, state);
    if (buffer == nullptr) {
        return -1;
    }
    return PyByteArray_GET_SIZE(buffer) > 0 ? 1 : truth(attributes, state->name_eof);
}

/// The first step.
PySendResult begin(AsyncioReadObject* read, PyObject* attributes, PyObject** result) noexcept {
    const ModuleState* state = read->state();
    *result = nullptr;
    // Also checked when a read continues after data woke it: if the connection is lost before its
    // task runs, asyncio's own code waits for ever.
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

/// `finally: self._waiter = None`, if `_waiter` is still this read. False with an exception set.
bool stop_waiting(AsyncioReadObject* read, PyObject* attributes) noexcept {
    PyObject* name = read->state()->name_waiter;
    PyObject* waiter = attribute(attributes, name);
    return waiter == as_object(read) ? PyDict_SetItem(attributes, name, Py_None) == 0
                                     : waiter != nullptr;
}

/// The step after the wait. Null with an exception set.
PyObject* end(AsyncioReadObject* read, PyObject* attributes) noexcept {
    if (!stop_waiting(read, attributes)) {
        return nullptr;
    }
    if (read->caller != nullptr) {
        return Py_NewRef(Py_None);
    }
    return read->data != nullptr ? take_arriving(read, attributes)
                                 : take(read->state(), attributes, read->count);
}

/// Ends the wait. The task is stepped in the next iteration, as a future's callbacks are.
bool finish_wait(AsyncioReadObject* read) noexcept {
    read->done = true;
    const Ref loop = read->owning_loop();
    return loop && step_later(read->state(), read->task, as_object(read), loop.get());
}

PySendResult AsyncioReadObject::advance(bool first, PyObject* /*value*/,
                                        PyObject** result) noexcept {
    if (!first && !done) {
        task.blocking = true;
        *result = Py_NewRef(as_object(this));
        return PYGEN_NEXT;
    }
    const Ref attributes(PyObject_GenericGetDict(reader, nullptr));
    if (!attributes) {
        return PYGEN_ERROR;
    }
    if (first) {
        return begin(this, attributes.get(), result);
    }
    *result = end(this, attributes.get());
    return *result != nullptr ? PYGEN_RETURN : PYGEN_ERROR;
}

bool AsyncioReadObject::abandon() noexcept {
    if (stage != AwaitStage::suspended) {
        return true;
    }
    const Ref attributes(PyObject_GenericGetDict(reader, nullptr));
    return attributes && stop_waiting(this, attributes.get());
}

void AsyncioReadObject::release() noexcept {
    Py_CLEAR(caller);
    Py_CLEAR(exception);
    python::release(task);
}

int AsyncioReadObject::visit(visitproc visit, void* arg) const noexcept {
    Py_VISIT(caller);
    Py_VISIT(exception);
    return visit_task(task, visit, arg);
}

// ---- the future that is the `_waiter` of asyncio's reader
// ----------------------------------------------

bool AsyncioReadObject::wake_soon() noexcept {
    return finish_wait(this);
}

bool AsyncioReadObject::check_result() noexcept {
    if (exception != nullptr) {
        raise_given(exception);
    }
    return exception == nullptr;
}

PyObject* AsyncioReadObject::set_result(PyObject* self, PyObject* /*value*/) noexcept {
    AsyncioReadObject* read = of(self);
    return read->done || finish_wait(read) ? Py_NewRef(Py_None) : nullptr;
}

PyObject* AsyncioReadObject::set_exception(PyObject* self, PyObject* exception) noexcept {
    AsyncioReadObject* read = of(self);
    if (read->done) {
        Py_RETURN_NONE;
    }
    Ref instance = exception_of(exception);
    if (!instance) {
        return nullptr;
    }
    Py_XSETREF(read->exception, instance.release());
    return finish_wait(read) ? Py_NewRef(Py_None) : nullptr;
}

std::array<PyMethodDef, 2> AsyncioReadObject::own_methods() noexcept {
    return {
        PyMethodDef{"set_result", &set_result, METH_O, "End the wait."},
        PyMethodDef{"set_exception", &set_exception, METH_O, "End the wait with an exception."},
    };
}

PyObject* make_wait(ModuleState* state, PyObject* reader, PyObject* caller,
                    Py_ssize_t count) noexcept {
    auto* read = AsyncioReadObject::allocate(state, state->asyncio_read_type);
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
    read->stage = AwaitStage::created;
    read->done = false;
    PyObject_GC_Track(as_object(read));
    return as_object(read);
}

// ---- the methods that replace asyncio's
// --------------------------------------------------------------

/// `StreamReader.read(n=-1)`: native for a count above zero, otherwise asyncio's own.
PyObject* native_read(PyObject* self, PyTypeObject* defining, PyObject* const* arguments,
                      Py_ssize_t count, PyObject* keywords) {
    ModuleState* state = state_of(defining);
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
    return Py_IS_TYPE(waiter, state->asyncio_read_type) && !AsyncioReadObject::of(waiter)->done &&
           AsyncioReadObject::of(waiter)->task.wakeup != nullptr;
}

bool resume_native_read(ModuleState* state, PyObject* waiter, PyObject* attributes,
                        const char* data, std::size_t size) noexcept {
    const Ref alive = Ref::borrow(waiter);
    AsyncioReadObject* read = AsyncioReadObject::of(waiter);
    PyObject* buffer = buffer_of(attributes, state);
    // Only a task written in C continues directly with the read. Before any other code runs, the
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
    // The task has not taken the bytes: it did something else first, or there was no memory.
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
        AsyncioReadObject::add_type(module, "penstock._core.AsyncioRead",
                                    "A wait of asyncio's stream reader, to be awaited once.");
    const Ref waits(PyType_FromModuleAndSpec(module, &waits_spec, nullptr));
    return state->asyncio_read_type != nullptr && waits &&
           PyModule_AddType(module, reinterpret_cast<PyTypeObject*>(waits.get())) == 0;
}

} // namespace penstock::python
