#pragma once

#include "buffer_view.hpp"
#include "descriptor_waiter.hpp"
#include "fd_callbacks.hpp"

#include <netinet/in.h>

namespace penstock::python {

struct SockOperationObject;

/// How one try of a socket operation ended.
enum class Outcome : unsigned char {
    done,    ///< with a result
    blocked, ///< to be tried again when the socket is ready
    failed,  ///< with an exception set
};

/// What `sock_recv` and its like differ in.
struct SockCall {
    const char* name;
    const char* qualified_name;
    const Direction& direction;
    Outcome (*attempt)(SockOperationObject* operation, Ref& result);
};

/// The awaitable of `sock_recv` and its like: a coroutine object in all but its type, so that
/// create_task, gather and wait_for take it.
///
/// Nothing happens before it is first awaited, and it can be awaited once. It completes without an
/// iteration of the loop when the system call does. Else its task waits for the socket to be ready
/// and tries again, in its own step: what is cancelled has read and sent nothing.
struct SockOperationObject {
    enum class Stage : unsigned char { created, running, waiting, finished };

    PyObject ob_base;
    const SockCall* call;
    LoopObject* loop;               ///< owned, as all that follows
    PyObject* socket;               ///< a plain socket.socket
    PyObject* argument;             ///< size, buffer, data or address; or null
    PyObject* more;                 ///< recvfrom_into's size, or null
    DescriptorWaiterObject* waiter; ///< while it waits
    BufferView view;                ///< of the data of sendall, from its first try to its end
    Py_ssize_t sent;                ///< of that
    int fd;                         ///< of the socket, at the last try
    sockaddr_in6 address;           ///< of sendto and connect; big enough for IPv4 and IPv6
    socklen_t address_length;
    Stage stage;
    bool woken; ///< the socket was found ready since the operation began
};

/// A new operation, not yet begun; `argument` and `more` may be null. Null with an exception set.
SockOperationObject* make_sock_operation(LoopObject* loop, const SockCall& call, PyObject* socket,
                                         PyObject* argument, PyObject* more) noexcept;

} // namespace penstock::python
