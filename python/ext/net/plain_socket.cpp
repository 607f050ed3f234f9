#include "net/plain_socket.hpp"

#include <unistd.h>

namespace penstock::python {

namespace {

Ref field(PyObject* descriptor, PyObject* socket) noexcept {
    return Ref(Py_TYPE(descriptor)->tp_descr_get(descriptor, socket, as_object(Py_TYPE(socket))));
}

int number(const Ref& value) noexcept {
    const long result = value ? PyLong_AsLong(value.get()) : -1;
    if (result == -1 && PyErr_Occurred() != nullptr) {
        PyErr_Clear(); // only an object that was never initialised raises
        return -1;
    }
    return static_cast<int>(result);
}

} // namespace

int socket_descriptor(const ModuleState* state, PyObject* socket) noexcept {
    // The function behind the method: a call through the method takes four times as long, and each
    // attempt at an operation needs the descriptor.
    PyMethodDef* fileno = reinterpret_cast<PyMethodDescrObject*>(state->socket_fileno)->d_method;
    return number(Ref(fileno->ml_meth(socket, nullptr)));
}

int socket_family(const ModuleState* state, PyObject* socket) noexcept {
    return number(field(state->socket_family, socket));
}

int socket_kind(const ModuleState* state, PyObject* socket) noexcept {
    return number(field(state->socket_kind, socket));
}

Ref make_socket_like(const ModuleState* state, PyObject* socket, int fd) noexcept {
    const Ref family = field(state->socket_family, socket);
    const Ref kind = family ? field(state->socket_kind, socket) : Ref();
    const Ref protocol = kind ? field(state->socket_protocol, socket) : Ref();
    const Ref number(protocol ? PyLong_FromLong(fd) : nullptr);
    if (!number) {
        ::close(fd);
        return Ref();
    }
    PyObject* arguments[] = {family.get(), kind.get(), protocol.get(), number.get()};
    Ref made(PyObject_Vectorcall(state->socket_type, arguments, 4, nullptr));
    if (!made) {
        ::close(fd);
        return Ref();
    }
    // Marks the object as non-blocking without a query of its descriptor.
    const Ref done(PyObject_CallMethod(made.get(), "setblocking", "O", Py_False));
    return done ? std::move(made) : Ref();
}

bool import_plain_socket(ModuleState* state) {
    const Ref module(PyImport_ImportModule("socket"));
    const Ref native(PyImport_ImportModule("_socket"));
    if (!module || !native) {
        return false;
    }
    state->socket_type = PyObject_GetAttrString(module.get(), "socket");
    const Ref base(PyObject_GetAttrString(native.get(), "socket"));
    if (state->socket_type == nullptr || !base) {
        return false;
    }
    state->socket_fileno = PyObject_GetAttrString(base.get(), "fileno");
    if (state->socket_fileno != nullptr &&
        (!Py_IS_TYPE(state->socket_fileno, &PyMethodDescr_Type) ||
         reinterpret_cast<PyMethodDescrObject*>(state->socket_fileno)->d_method->ml_flags !=
             METH_NOARGS)) {
        PyErr_SetString(PyExc_ImportError, "_socket.socket.fileno is not CPython's own method");
        return false;
    }
    state->socket_family = PyObject_GetAttrString(base.get(), "family");
    state->socket_kind = PyObject_GetAttrString(base.get(), "type");
    state->socket_protocol = PyObject_GetAttrString(base.get(), "proto");
    return state->socket_fileno != nullptr && state->socket_family != nullptr &&
           state->socket_kind != nullptr && state->socket_protocol != nullptr;
}

} // namespace penstock::python
