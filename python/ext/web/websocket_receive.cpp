// The awaitable of a WebSocket connection's recv() and iteration.

#include "web/websocket_connection.hpp"

namespace penstock::python {

namespace {

void stop_waiting(WebSocketReceiveObject* receive) noexcept {
    if (receive->connection != nullptr && receive->connection->waiting == receive) {
        receive->connection->waiting = nullptr;
        Py_DECREF(receive); // the caller holds another reference
    }
}

} // namespace

PySendResult WebSocketReceiveObject::advance(bool /*first*/, PyObject* /*value*/,
                                             PyObject** result) noexcept {
    if (connection->receiver != nullptr) {
        refuse_second_receiver(connection, "recv() called while for_each() receives");
        return PYGEN_ERROR;
    }
    if (receives_parts(connection) && !part) {
        refuse_second_receiver(connection,
                               "recv() called before recv_streaming() has ended its message");
        return PYGEN_ERROR;
    }
    if (has_message(connection)) {
        *result = take_message(connection);
        if (raw && *result != nullptr && PyUnicode_Check(*result) != 0) {
            const Ref text(*result);
            *result = PyUnicode_AsUTF8String(text.get());
        }
        return *result != nullptr ? PYGEN_RETURN : PYGEN_ERROR;
    }
    if (connection->ended) {
        const Ref exception(PyObject_CallMethod(as_object(connection), "_end_of_messages", "O",
                                                iterating ? Py_True : Py_False));
        if (exception) {
            PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
        }
        return PYGEN_ERROR;
    }
    if (connection->loop == nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "the connection is not open");
        return PYGEN_ERROR;
    }
    if (connection->waiting != nullptr && connection->waiting != this) {
        refuse_second_receiver(
            connection, "recv() called while another coroutine is already waiting in recv()");
        return PYGEN_ERROR;
    }
    if (connection->waiting == nullptr) {
        connection->waiting = reinterpret_cast<WebSocketReceiveObject*>(Py_NewRef(as_object(this)));
    }
    task.blocking = true;
    *result = Py_NewRef(as_object(this));
    return PYGEN_NEXT;
}

bool WebSocketReceiveObject::wake_soon() noexcept {
    const Ref alive = Ref::borrow(as_object(this));
    if (task.wakeup == nullptr) {
        return true; // no task waits for it yet
    }
    stop_waiting(this);
    return step_later(state(), task, as_object(this), connection->loop);
}

void WebSocketReceiveObject::release() noexcept {
    stop_waiting(this);
    python::release(task);
}

int WebSocketReceiveObject::visit(visitproc visit, void* arg) const noexcept {
    return visit_task(task, visit, arg);
}

PyObject* make_receive(WebSocketConnectionObject* connection, ReceiveKind kind) noexcept {
    PyTypeObject* type = state_of(Py_TYPE(connection))->websocket_receive_type;
    auto* receive = PyObject_GC_New(WebSocketReceiveObject, type);
    if (receive == nullptr) {
        return nullptr;
    }
    receive->connection =
        reinterpret_cast<WebSocketConnectionObject*>(Py_NewRef(as_object(connection)));
    receive->task = {};
    receive->stage = AwaitStage::created;
    receive->iterating = kind.iterating;
    receive->raw = kind.raw;
    receive->part = kind.part;
    PyObject_GC_Track(as_object(receive));
    return as_object(receive);
}

bool resume(WebSocketReceiveObject* receive) noexcept {
    const Ref alive = Ref::borrow(as_object(receive));
    if (receive->task.wakeup == nullptr) {
        return true; // no task waits for it yet
    }
    stop_waiting(receive);
    return step(receive->state(), receive->task, as_object(receive));
}

bool add_websocket_receive_type(PyObject* module, ModuleState* state) {
    state->websocket_receive_type = WebSocketReceiveObject::add_type(
        module, "penstock._core.WebSocketReceive", "A receive of a message, to be awaited once.");
    return state->websocket_receive_type != nullptr;
}

} // namespace penstock::python
