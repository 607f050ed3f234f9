#pragma once

#include "py_ref.hpp"

#include <sys/socket.h>

namespace penstock::python {

/// A socket address as the socket module shows it: (host, port), (host, port, flow info, scope id),
/// or a path (bytes for an abstract name). None for other families. Null with an exception set.
PyObject* address_to_python(const sockaddr* address, socklen_t length) noexcept;

} // namespace penstock::python
