#include "sock_operation.hpp"

#include "coroutine_protocol.hpp"
#include "loop.hpp"
#include "socket_transport.hpp"

#include <new>

#include <structmember.h>

namespace penstock::python {

namespace {

using Stage = SockOperationObject::Stage;

SockOperationObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<SockOperationObject*>(object);
}

void stop_waiting(SockOperationObject* operation) noexcept {
    if (DescriptorWaiterObject* waiter = std::exchange(operation->waiter, nullptr)) {
        abandon(waiter);
        Py_DECREF(waiter);
    }
}

/// Ends it and lets go of all that only a running operation needs.
void finish(SockOperationObject* operation) noexcept {
    operation->stage = Stage::finished;
    stop_waiting(operation);
    operation->view.release();
    Py_CLEAR(operation->socket);
    Py_CLEAR(operation->argument);
    Py_CLEAR(operation->more);
}

bool check_non_blocking(const SockOperationObject* operation) noexcept {
    if (!operation->loop->debug) {
        return true;
    }
    const Ref timeout(PyObject_CallMethod(operation->socket, "gettimeout", nullptr));
    const Ref zero(PyLong_FromLong(0));
    const int blocking =
        timeout && zero ? PyObject_RichCompareBool(timeout.get(), zero.get(), Py_NE) : -1;
    if (blocking > 0) {
        PyErr_SetString(PyExc_ValueError, "the socket must be non-blocking");
    }
    return blocking == 0;
}

/// Begins to wait for the socket to be ready; false with an exception set.
bool wait_until_ready(SockOperationObject* operation) noexcept {
    LoopObject* loop = operation->loop;
    DescriptorWaiterObject* waiter = make_descriptor_waiter(loop);
    if (waiter == nullptr) {
        return false;
    }
    // Asked last: making the waiter may have collected garbage, whose finalizers run Python code.
    if (!check_open(loop) || !check_no_transport(loop, operation->socket, operation->fd)) {
        Py_DECREF(waiter);
        return false;
    }
    operation->stage = Stage::waiting;
    operation->waiter = waiter;
    const SocketDescriptor socket{.socket = operation->socket, .fd = operation->fd};
    return begin_wait(loop, operation->call->direction, socket, waiter);
}

bool may_resume_operation(const SockOperationObject* operation) noexcept {
    return may_resume(operation->stage == Stage::running, operation->stage == Stage::finished);
}

/// Tries the system call, or tries it again: what a coroutine's send() does.
PySendResult resume(SockOperationObject* operation, PyObject** result) noexcept {
    if (!may_resume_operation(operation)) {
        return PYGEN_ERROR;
    }
    // Marked first: what follows runs Python code, which may come back here.
    const bool first = std::exchange(operation->stage, Stage::running) == Stage::created;
    if (operation->waiter != nullptr) {
        operation->woken = operation->waiter->state == DescriptorWaiterObject::State::ready;
        stop_waiting(operation);
    }
    Ref value;
    Outcome outcome = Outcome::failed;
    if (!first || check_non_blocking(operation)) {
        outcome = operation->call->attempt(operation, value);
    }
    if (outcome == Outcome::blocked && wait_until_ready(operation)) {
        *result = Py_NewRef(as_object(operation->waiter));
        return PYGEN_NEXT;
    }
    finish(operation);
    *result = value.release();
    return outcome == Outcome::done ? PYGEN_RETURN : PYGEN_ERROR;
}

PyObject* operation_next(PyObject* self) {
    PyObject* result = nullptr;
    const PySendResult sent = resume(self_of(self), &result);
    return iterator_step(self, sent, result);
}

PySendResult operation_am_send(PyObject* self, PyObject* /*value*/, PyObject** result) {
    return resume(self_of(self), result);
}

PyObject* operation_send(PyObject* self, PyObject* value) {
    if (!may_send(value, self_of(self)->stage != Stage::created)) {
        return nullptr;
    }
    PyObject* result = nullptr;
    const PySendResult sent = resume(self_of(self), &result);
    return send_step(sent, result);
}

PyObject* operation_throw(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    SockOperationObject* operation = self_of(self);
    if (!may_resume_operation(operation)) {
        return nullptr;
    }
    finish(operation);
    raise_thrown(arguments, count);
    return nullptr;
}

PyObject* operation_close(PyObject* self, PyObject* /*unused*/) {
    SockOperationObject* operation = self_of(self);
    if (operation->stage == Stage::running) {
        PyErr_SetString(PyExc_ValueError, "coroutine already executing");
        return nullptr;
    }
    finish(operation);
    Py_RETURN_NONE;
}

PyObject* operation_repr(PyObject* self) {
    return PyUnicode_FromFormat("<coroutine object %s at %p>", self_of(self)->call->qualified_name,
                                self);
}

PyObject* get_name(PyObject* self, void* /*unused*/) {
    return PyUnicode_FromString(self_of(self)->call->name);
}

PyObject* get_qualified_name(PyObject* self, void* /*unused*/) {
    return PyUnicode_FromString(self_of(self)->call->qualified_name);
}

PyObject* get_none(PyObject* /*self*/, void* /*unused*/) {
    Py_RETURN_NONE;
}

PyObject* get_running(PyObject* self, void* /*unused*/) {
    return PyBool_FromLong(self_of(self)->stage == Stage::running);
}

PyObject* get_awaited(PyObject* self, void* /*unused*/) {
    DescriptorWaiterObject* waiter = self_of(self)->waiter;
    return Py_NewRef(waiter != nullptr ? as_object(waiter) : Py_None);
}

PyObject* get_suspended(PyObject* self, void* /*unused*/) {
    return PyBool_FromLong(self_of(self)->stage == Stage::waiting);
}

int operation_traverse(PyObject* self, visitproc visit, void* arg) {
    SockOperationObject* operation = self_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(operation->loop);
    Py_VISIT(operation->socket);
    Py_VISIT(operation->argument);
    Py_VISIT(operation->more);
    Py_VISIT(operation->waiter);
    Py_VISIT(operation->view.owner());
    return 0;
}

int operation_clear(PyObject* self) {
    finish(self_of(self));
    return 0;
}

void operation_finalize(PyObject* self) {
    SockOperationObject* operation = self_of(self);
    if (operation->stage == Stage::created) {
        operation->stage = Stage::finished;
        warn_never_awaited(self, operation->call->qualified_name);
    }
}

void operation_dealloc(PyObject* self) {
    SockOperationObject* operation = self_of(self);
    if (operation->stage == Stage::created && PyObject_CallFinalizerFromDealloc(self) < 0) {
        return; // somebody kept it
    }
    PyObject_GC_UnTrack(self);
    finish(operation);
    LoopObject* loop = operation->loop;
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_Del(self);
    Py_DECREF(loop);
    Py_DECREF(type);
}

PyMethodDef operation_methods[] = {
    {"send", &operation_send, METH_O, "Begin, or try again; as a coroutine's."},
    {"throw", as_function(&operation_throw), METH_FASTCALL, "End it with an exception."},
    {"close", &operation_close, METH_NOARGS, "End it."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef operation_attributes[] = {
    {"__name__", &get_name, nullptr, nullptr, nullptr},
    {"__qualname__", &get_qualified_name, nullptr, nullptr, nullptr},
    {"cr_await", &get_awaited, nullptr, nullptr, nullptr},
    {"cr_code", &get_none, nullptr, nullptr, nullptr},
    {"cr_frame", &get_none, nullptr, nullptr, nullptr},
    {"cr_origin", &get_none, nullptr, nullptr, nullptr},
    {"cr_running", &get_running, nullptr, nullptr, nullptr},
    {"cr_suspended", &get_suspended, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot operation_slots[] = {
    {Py_tp_doc, const_cast<char*>("The awaitable of sock_recv() and its like.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(&operation_dealloc)},
    {Py_tp_finalize, reinterpret_cast<void*>(&operation_finalize)},
    {Py_tp_traverse, reinterpret_cast<void*>(&operation_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&operation_clear)},
    {Py_tp_repr, reinterpret_cast<void*>(&operation_repr)},
    {Py_tp_iternext, reinterpret_cast<void*>(&operation_next)},
    {Py_am_await, reinterpret_cast<void*>(&await_itself)},
    {Py_am_send, reinterpret_cast<void*>(&operation_am_send)},
    {Py_tp_methods, operation_methods},
    {Py_tp_getset, operation_attributes},
    {0, nullptr},
};

PyType_Spec operation_spec = {
    .name = "penstock._core.SockOperation",
    .basicsize = sizeof(SockOperationObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = operation_slots,
};

} // namespace

SockOperationObject* make_sock_operation(LoopObject* loop, const SockCall& call, PyObject* socket,
                                         PyObject* argument, PyObject* more) noexcept {
    auto* operation = PyObject_GC_New(SockOperationObject, loop->state->sock_operation_type);
    if (operation == nullptr) {
        return nullptr;
    }
    operation->call = &call;
    operation->loop = loop;
    Py_INCREF(loop);
    operation->socket = Py_NewRef(socket);
    operation->argument = Py_XNewRef(argument);
    operation->more = Py_XNewRef(more);
    operation->waiter = nullptr;
    new (&operation->view) BufferView;
    operation->sent = 0;
    operation->fd = -1;
    operation->address_length = 0;
    operation->stage = Stage::created;
    operation->woken = false;
    PyObject_GC_Track(as_object(operation));
    return operation;
}

bool add_sock_operation_type(PyObject* module, ModuleState* state) {
    state->sock_operation_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &operation_spec, nullptr));
    return state->sock_operation_type != nullptr &&
           PyModule_AddType(module, state->sock_operation_type) == 0;
}

} // namespace penstock::python
