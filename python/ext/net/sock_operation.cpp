#include "net/sock_operation.hpp"

#include "core/loop.hpp"
#include "net/socket_transport.hpp"

#include <new>

namespace penstock::python {

namespace {

void stop_waiting(SockOperationObject* operation) noexcept {
    if (DescriptorWaiterObject* waiter = std::exchange(operation->waiter, nullptr)) {
        abandon(waiter);
        Py_DECREF(waiter);
    }
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
    // Checked last: making the waiter may have collected garbage, whose finalizers run Python code.
    if (!check_open(loop) || !check_no_transport(loop, operation->socket, operation->fd)) {
        Py_DECREF(waiter);
        return false;
    }
    operation->waiter = waiter;
    const SocketDescriptor socket{.socket = operation->socket, .fd = operation->fd};
    return begin_wait(loop, operation->call->direction, socket, waiter);
}

} // namespace

PySendResult SockOperationObject::advance(bool first, PyObject* /*value*/,
                                          PyObject** result) noexcept {
    if (waiter != nullptr) {
        woken = waiter->ready;
        stop_waiting(this);
    }
    Ref received;
    Outcome outcome = Outcome::failed;
    if (!first || check_non_blocking(this)) {
        outcome = call->attempt(this, received);
    }
    if (outcome == Outcome::blocked && wait_until_ready(this)) {
        *result = Py_NewRef(as_object(waiter));
        return PYGEN_NEXT;
    }
    *result = received.release();
    return outcome == Outcome::done ? PYGEN_RETURN : PYGEN_ERROR;
}

void SockOperationObject::release() noexcept {
    stop_waiting(this);
    view.release();
    Py_CLEAR(socket);
    Py_CLEAR(argument);
    Py_CLEAR(more);
}

int SockOperationObject::visit(visitproc visit, void* arg) const noexcept {
    Py_VISIT(socket);
    Py_VISIT(argument);
    Py_VISIT(more);
    Py_VISIT(waiter);
    Py_VISIT(view.owner());
    return 0;
}

PyObject* SockOperationObject::tp_repr(PyObject* self) noexcept {
    return PyUnicode_FromFormat("<coroutine object %s at %p>", of(self)->call->qualified_name,
                                self);
}

std::array<PyType_Slot, 1> SockOperationObject::own_slots() noexcept {
    return {PyType_Slot{Py_tp_repr, reinterpret_cast<void*>(&tp_repr)}};
}

SockOperationObject* make_sock_operation(LoopObject* loop, const SockCall& call, PyObject* socket,
                                         PyObject* argument, PyObject* more) noexcept {
    auto* operation = SockOperationObject::allocate(loop->state, loop->state->sock_operation_type);
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
    operation->stage = AwaitStage::created;
    operation->woken = false;
    PyObject_GC_Track(as_object(operation));
    return operation;
}

bool add_sock_operation_type(PyObject* module, ModuleState* state) {
    state->sock_operation_type = SockOperationObject::add_type(
        module, "penstock._core.SockOperation", "The awaitable of sock_recv() and similar.");
    return state->sock_operation_type != nullptr;
}

} // namespace penstock::python
