#pragma once

#include "core/module.hpp"

namespace penstock::python {

/// Whether the object is of type socket.socket exactly, so that its descriptor may be used without
/// calling its methods. Subclasses (ssl.SSLSocket, a test's double) may override any method.
inline bool is_plain_socket(const ModuleState* state, PyObject* object) noexcept {
    return Py_IS_TYPE(object, reinterpret_cast<PyTypeObject*>(state->socket_type));
}

/// The descriptor of a plain socket, -1 when it is closed.
int socket_descriptor(const ModuleState* state, PyObject* socket) noexcept;

/// AF_INET and so on. Python's property makes an enum, which costs a microsecond.
int socket_family(const ModuleState* state, PyObject* socket) noexcept;

/// SOCK_STREAM and so on.
int socket_kind(const ModuleState* state, PyObject* socket) noexcept;

/// Makes a non-blocking socket.socket that owns `fd` and is otherwise like `socket`. Closes the
/// descriptor on failure. Null with an exception set.
Ref make_socket_like(const ModuleState* state, PyObject* socket, int fd) noexcept;

bool import_plain_socket(ModuleState* state);

} // namespace penstock::python
