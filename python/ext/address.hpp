#pragma once

#include "py_ref.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

namespace penstock::python {

/// A socket address as the socket module shows it: (host, port), (host, port, flow info, scope id),
/// or a path (bytes for an abstract name). None for other families. Null with an exception set.
PyObject* address_to_python(const sockaddr* address, socklen_t length) noexcept;

/// Reads (host, port) or (host, port, flow info, scope id) with a host that is an IP address of
/// `family`. 0 for anything else, which Python's own socket module must judge: names to be resolved
/// and mistakes. Sets no exception.
socklen_t numeric_address(PyObject* object, int family, sockaddr_in6& address) noexcept;

} // namespace penstock::python
