// What a connection does to its transport: writing, pausing, ending.

#include "asgi/http_connection.hpp"
#include "asgi/http_request.hpp"
#include "net/socket_transport.hpp"

#include <array>

#include <penstock/codec/http/head_writer.hpp>

namespace penstock::python {

namespace {

/// The transport, if it is one of this module's own, which is written to without a call of Python.
SocketTransportObject* native_transport(const HttpConnectionObject* connection) noexcept {
    PyObject* transport = connection->transport;
    const ModuleState* state = state_of(Py_TYPE(connection->server));
    return transport != nullptr && Py_IS_TYPE(transport, state->socket_transport_type)
               ? transport_of(transport)
               : nullptr;
}

bool write_object(HttpConnectionObject* connection, PyObject* bytes) noexcept {
    const Ref transport = Ref::borrow(connection->transport);
    return !transport ||
           Ref(PyObject_CallMethodOneArg(transport.get(),
                                         state_of(Py_TYPE(connection->server))->name_write, bytes));
}

} // namespace

bool write_bytes(HttpConnectionObject* connection, std::string_view bytes) noexcept {
    if (SocketTransportObject* transport = native_transport(connection)) {
        const Ref alive = Ref::borrow(as_object(transport));
        send_copy(transport, bytes.data(), bytes.size());
        return PyErr_Occurred() == nullptr;
    }
    const Ref object(
        PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
    return object && write_object(connection, object.get());
}

bool write_both(HttpConnectionObject* connection, std::string_view head, PyObject* body) noexcept {
    const Ref first(PyBytes_FromStringAndSize(head.data(), static_cast<Py_ssize_t>(head.size())));
    if (!first) {
        return false;
    }
    if (native_transport(connection) == nullptr) {
        return write_object(connection, first.get()) && write_object(connection, body);
    }
    const Ref transport = Ref::borrow(connection->transport);
    const Ref both(PyTuple_Pack(2, first.get(), body));
    return both && Ref(transport_writelines(transport.get(), both.get()));
}

bool writes_wait(const HttpConnectionObject* connection) noexcept {
    const SocketTransportObject* transport = native_transport(connection);
    return transport != nullptr && queued(transport) > 0;
}

bool call_transport(HttpConnectionObject* connection, const char* method) noexcept {
    const Ref transport = Ref::borrow(connection->transport);
    return !transport || Ref(PyObject_CallMethod(transport.get(), method, nullptr));
}

bool pause_reading(HttpConnectionObject* connection) noexcept {
    if (connection->reading_paused) {
        return true;
    }
    connection->reading_paused = true;
    return call_transport(connection, "pause_reading");
}

bool resume_reading(HttpConnectionObject* connection) noexcept {
    if (!connection->reading_paused) {
        return true;
    }
    connection->reading_paused = false;
    return call_transport(connection, "resume_reading");
}

bool end_connection(HttpConnectionObject* connection, Ending how) noexcept {
    const HttpRequestObject* request = connection->request;
    if (connection->bytes == nullptr) {
        return true; // it was not started, or the collector has cleared it
    }
    const bool unread = how == Ending::linger || !connection->bytes->pending.empty() ||
                        connection->reading_paused ||
                        (request != nullptr && !request->body_complete);
    connection->ending = true;
    connection->bytes->pending.clear(0);
    if (how == Ending::abort) {
        return call_transport(connection, "abort");
    }
    if (connection->lingering) {
        return true;
    }
    if (!unread || connection->eof || native_transport(connection) == nullptr) {
        return call_transport(connection, "close");
    }
    connection->lingering = true;
    connection->since = io::coarse_monotonic_now();
    if (!call_transport(connection, "write_eof")) {
        PyErr_Clear(); // the client has reset the connection
        return call_transport(connection, "abort");
    }
    return resume_reading(connection);
}

bool refuse(HttpConnectionObject* connection, int status, std::string_view text) noexcept {
    if (connection->lingering) {
        return true; // ended by the program's code that was told of it: its side is shut down
    }
    std::array<char, 1024> buffer;
    http::HeadWriter head(buffer);
    head.status(status)
        .field("content-type", "text/plain; charset=utf-8")
        .field("content-length", text.size())
        .field("connection", "close")
        .end();
    const Ref body(PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
    return body && write_both(connection, head.text(), body.get()) &&
           end_connection(connection, Ending::linger);
}

void note_refusal(HttpConnectionObject* connection, PyObject* scope, int status) noexcept {
    const Ref note = Ref::borrow(connection->server->on_refusal);
    if (note.get() == Py_None) {
        return;
    }
    Ref told = Ref::borrow(scope);
    if (!told) {
        const ModuleState* state = state_of(Py_TYPE(connection->server));
        const Ref unknown(PyUnicode_FromString("-"));
        told = Ref(PyDict_Copy(connection->prototype));
        if (!unknown || !told ||
            PyDict_SetItem(told.get(), state->name_method, unknown.get()) != 0 ||
            PyDict_SetItem(told.get(), state->name_path, unknown.get()) != 0) {
            PyErr_WriteUnraisable(as_object(connection));
            return;
        }
    }
    if (!Ref(PyObject_CallFunction(note.get(), "Oi", told.get(), status))) {
        PyErr_WriteUnraisable(note.get());
    }
}

bool call_soon(HttpConnectionObject* connection, PyObject* object, const char* method) noexcept {
    const Ref callback(PyObject_GetAttrString(object, method));
    return callback && Ref(PyObject_CallMethodOneArg(
                           connection->server->loop,
                           state_of(Py_TYPE(connection->server))->name_call_soon, callback.get()));
}

} // namespace penstock::python
