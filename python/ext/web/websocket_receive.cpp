// The awaitable of a WebSocket connection's recv() and iteration.

#include "web/websocket_connection.hpp"

#include <utility>

namespace penstock::python {

namespace {

/// Tells a session that others may receive. Preserves a raised exception.
void let_others_receive(PyObject* session) noexcept {
    Ref exception = take_exception();
    if (!Ref(PyObject_CallMethod(session, "_let_others_receive", nullptr))) {
        PyErr_WriteUnraisable(session);
    }
    if (exception) {
        raise_exception(std::move(exception));
    }
}

void stop_waiting(WebSocketReceiveObject* receive) noexcept {
    WebSocketConnectionObject* connection = receive->connection;
    if (connection != nullptr && connection->waiting == receive) {
        connection->waiting = nullptr;
        if (std::exchange(connection->others_wait, false) && receive->session != nullptr) {
            let_others_receive(receive->session);
        }
        Py_DECREF(receive); // the caller holds another reference
    }
}

/// The message of ASGI with what was received. Null with an exception set. `events` has copies of
/// both kinds of it, that of text first, and then the key of what was received in each.
PyObject* event_of(PyObject* events, PyObject* received) noexcept {
    const Py_ssize_t kind = PyUnicode_Check(received) != 0 ? 0 : 1;
    Ref event(PyDict_Copy(PyTuple_GET_ITEM(events, kind)));
    return event && PyDict_SetItem(event.get(), PyTuple_GET_ITEM(events, kind + 2), received) == 0
               ? event.release()
               : nullptr;
}

PySendResult drive(PyObject*& delegate, PyObject* value, PyObject** result) noexcept {
    const Ref driven = Ref::borrow(delegate);
    const PySendResult sent = PyIter_Send(driven.get(), value, result);
    if (sent != PYGEN_NEXT) {
        Py_CLEAR(delegate);
    }
    return sent;
}

} // namespace

PySendResult WebSocketReceiveObject::advance(bool /*first*/, PyObject* value,
                                             PyObject** result) noexcept {
    if (delegate != nullptr) {
        return drive(delegate, value, result);
    }
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
        } else if (events != nullptr && *result != nullptr) {
            const Ref received(*result);
            *result = event_of(events, received.get());
        }
        return *result != nullptr ? PYGEN_RETURN : PYGEN_ERROR;
    }
    if (connection->ended && events != nullptr) {
        *result = PyObject_CallMethod(session, "_disconnect", nullptr);
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
        if (events != nullptr) {
            delegate = PyObject_CallMethod(session, "_receive_in_turn", nullptr);
            return delegate != nullptr ? drive(delegate, Py_None, result) : PYGEN_ERROR;
        }
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
    if (!step_later(state(), task, as_object(this), connection->loop)) {
        return false;
    }
    stop_waiting(this); // behind it: those that wait for their turn run after this one
    return true;
}

void WebSocketReceiveObject::release() noexcept {
    stop_waiting(this);
    Py_CLEAR(events);
    Py_CLEAR(session);
    Py_CLEAR(delegate);
    python::release(task);
}

int WebSocketReceiveObject::visit(visitproc visit, void* arg) const noexcept {
    Py_VISIT(events);
    Py_VISIT(session);
    Py_VISIT(delegate);
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
    receive->events = Py_XNewRef(kind.events);
    receive->session = Py_XNewRef(kind.session);
    receive->delegate = nullptr;
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
