#pragma once

#include "shared/py_ref.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

namespace penstock::python {

/// Converts a socket address to the socket module's form: (host, port), (host, port, flow info,
/// scope id), or a path (bytes for an abstract name). None for other families. Null with an
/// exception set.
PyObject* address_to_python(const sockaddr* address, socklen_t length) noexcept;

/// Reads (host, port) or (host, port, flow info, scope id) whose host is an IP address of `family`.
/// Returns the length, or 0 for anything else (names to resolve, invalid arguments), which the
/// socket module must handle. Sets no exception.
socklen_t numeric_address(PyObject* object, int family, sockaddr_in6& address) noexcept;

} // namespace penstock::python
