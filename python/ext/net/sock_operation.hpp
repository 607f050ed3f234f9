#pragma once

#include "awaitable/descriptor_waiter.hpp"
#include "core/fd_callbacks.hpp"
#include "shared/buffer_view.hpp"

#include <netinet/in.h>

namespace penstock::python {

struct SockOperationObject;

/// The outcome of one attempt at a socket operation.
enum class Outcome : unsigned char {
    done,    ///< with a result
    blocked, ///< try again when the socket is ready
    failed,  ///< with an exception set
};

/// One kind of socket operation, such as `sock_recv`.
struct SockCall {
    const char* name;
    const char* qualified_name;
    Direction direction;
    Outcome (*attempt)(SockOperationObject* operation, Ref& result);
};

/// The awaitable of `sock_recv` and similar methods.
///
/// Nothing happens before it is awaited. It tries the system call first, and completes at once if
/// the call succeeds. Otherwise its task waits for the socket to be ready and tries again in its
/// own step: a cancelled operation has read and sent nothing.
struct SockOperationObject : NativeAwaitable<SockOperationObject> {
    static constexpr bool warns_if_never_awaited = true;
    static constexpr PyObject* ModuleState::* spare = &ModuleState::spare_sock_operation;

    PyObject ob_base;
    const SockCall* call;
    LoopObject* loop;               ///< owned, as all that follows
    PyObject* socket;               ///< a plain socket.socket
    PyObject* argument;             ///< size, buffer, data or address; or null
    PyObject* more;                 ///< recvfrom_into's size, or null
    DescriptorWaiterObject* waiter; ///< while it waits
    BufferView view;                ///< sendall's data, from the first attempt to the end
    Py_ssize_t sent;                ///< bytes of the view that were sent
    int fd;                         ///< the socket's, at the last attempt
    sockaddr_in6 address;           ///< sendto's or connect's; holds IPv4 and IPv6
    socklen_t address_length;
    AwaitStage stage;
    bool woken; ///< the socket was found ready since the operation began

    [[nodiscard]] PyObject* owner() const noexcept { return as_object(loop); }
    [[nodiscard]] PyObject* awaited() const noexcept { return as_object(waiter); }
    [[nodiscard]] const char* name() const noexcept { return call->name; }
    [[nodiscard]] const char* qualified_name() const noexcept { return call->qualified_name; }
    PySendResult advance(bool first, PyObject* value, PyObject** result) noexcept;
    void release() noexcept;
    int visit(visitproc visit, void* arg) const noexcept;

    static PyObject* tp_repr(PyObject* self) noexcept;
    static std::array<PyType_Slot, 1> own_slots() noexcept;
};

/// A new operation that has not begun; `argument` and `more` may be null. Null with an exception
/// set.
SockOperationObject* make_sock_operation(LoopObject* loop, const SockCall& call, PyObject* socket,
                                         PyObject* argument, PyObject* more) noexcept;

} // namespace penstock::python
