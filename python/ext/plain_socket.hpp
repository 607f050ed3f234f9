#pragma once

#include "module.hpp"

namespace penstock::python {

/// A socket.socket of just that type: its descriptor may be used without asking its methods.
///
/// Subclasses (ssl.SSLSocket, a test's double) may do anything in their methods.
inline bool is_plain_socket(const ModuleState* state, PyObject* object) noexcept {
    return Py_IS_TYPE(object, reinterpret_cast<PyTypeObject*>(state->socket_type));
}

/// The descriptor of a plain socket; -1 when it is closed.
int socket_descriptor(const ModuleState* state, PyObject* socket) noexcept;

/// AF_INET and so on; the enum that Python's property makes of it costs a microsecond.
int socket_family(const ModuleState* state, PyObject* socket) noexcept;

/// SOCK_STREAM and so on.
int socket_kind(const ModuleState* state, PyObject* socket) noexcept;

/// A new non-blocking socket.socket that owns `fd` and is otherwise like `socket`. The descriptor is
/// closed on failure. Null with an exception set.
Ref make_socket_like(const ModuleState* state, PyObject* socket, int fd) noexcept;

bool import_plain_socket(ModuleState* state);

} // namespace penstock::python
