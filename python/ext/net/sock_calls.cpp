#include "net/sock_calls.hpp"

#include "core/loop.hpp"
#include "net/address.hpp"
#include "net/plain_socket.hpp"
#include "net/read_buffer.hpp"
#include "net/sock_operation.hpp"

#include <algorithm>
#include <cerrno>

#include <unistd.h>

namespace penstock::python {

namespace {

/// MSG_DONTWAIT: a socket in blocking mode, which asyncio forbids but does not detect, must not
/// block the loop.
constexpr int receive_flags = MSG_DONTWAIT;
constexpr int send_flags = MSG_DONTWAIT | MSG_NOSIGNAL;

/// The source address of a datagram.
struct Sender {
    sockaddr_storage address;
    socklen_t length = sizeof address;
    [[nodiscard]] sockaddr* generic() noexcept { return reinterpret_cast<sockaddr*>(&address); }
};

/// Read at every attempt: once the socket is closed, the number belongs to another file.
SocketDescriptor descriptor_of(SockOperationObject* operation) noexcept {
    operation->fd = socket_descriptor(operation->loop->state, operation->socket);
    return {.socket = operation->socket, .fd = operation->fd};
}

/// Handles a failed system call. An interrupted one is repeated when the socket is ready, at once
/// if it is.
Outcome blocked_or_failed(int error) noexcept {
    if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR) {
        return Outcome::blocked;
    }
    errno = error;
    PyErr_SetFromErrno(PyExc_OSError);
    return Outcome::failed;
}

Outcome done_with(PyObject* value, Ref& result) noexcept {
    result = Ref(value);
    return result ? Outcome::done : Outcome::failed;
}

/// Reads a byte count as socket.recv() does. -1 with an exception set.
Py_ssize_t size_of(PyObject* object, const char* method) noexcept {
    const Py_ssize_t size = PyNumber_AsSsize_t(object, PyExc_OverflowError);
    if (size == -1 && PyErr_Occurred() != nullptr) {
        return -1;
    }
    if (size < 0) {
        PyErr_Format(PyExc_ValueError, "negative buffersize in %s", method);
        return -1;
    }
    return size;
}

/// recvfrom(2) into a bytes object of the exact size.
Outcome receive_bytes(SockOperationObject* operation, const SocketDescriptor& socket,
                      Py_ssize_t size, Sender* sender, Ref& data) noexcept {
    // Uses the loop's buffer if it is large enough and free: cheaper than allocating for the
    // largest read and shrinking.
    const ReadBuffer shared = static_cast<std::size_t>(size) <= ReadBuffer::size
                                  ? ReadBuffer::if_free(operation->loop)
                                  : ReadBuffer::none();
    PyObject* own = shared.data() != nullptr ? nullptr : PyBytes_FromStringAndSize(nullptr, size);
    if (shared.data() == nullptr && own == nullptr) {
        return Outcome::failed;
    }
    char* buffer = own == nullptr ? shared.data() : PyBytes_AS_STRING(own);
    const ssize_t count = ::recvfrom(socket.fd, buffer, static_cast<std::size_t>(size),
                                     receive_flags, sender != nullptr ? sender->generic() : nullptr,
                                     sender != nullptr ? &sender->length : nullptr);
    if (count < 0) {
        const int error = errno;
        Py_XDECREF(own);
        return blocked_or_failed(error);
    }
    if (own == nullptr) {
        return done_with(PyBytes_FromStringAndSize(buffer, count), data);
    }
    _PyBytes_Resize(&own, count);
    return done_with(own, data);
}

/// Acquires the buffer of recv_into() or recvfrom_into(). False with the socket module's TypeError
/// set.
bool writable_buffer(PyObject* object, const char* method, BufferView& view) noexcept {
    if (view.acquire(object, PyBUF_WRITABLE)) {
        return true;
    }
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s() argument 1 must be read-write bytes-like object, not %.50s",
                 method, Py_TYPE(object)->tp_name);
    return false;
}

/// Records whether the next read from a stream is likely to block.
void learn(SockOperationObject* operation, const SocketDescriptor& socket, Py_ssize_t count,
           Py_ssize_t asked) noexcept {
    if (count == 0) {
        note_end(operation->loop, socket);
    } else {
        note_read(operation->loop, socket, count < asked);
    }
}

Outcome attempt_recv(SockOperationObject* operation, Ref& result) {
    const Py_ssize_t size = size_of(operation->argument, "recv");
    if (size <= 0) {
        return size == 0 ? done_with(PyBytes_FromStringAndSize(nullptr, 0), result)
                         : Outcome::failed;
    }
    const SocketDescriptor socket = descriptor_of(operation);
    if (known_drained(operation->loop, socket) && !operation->woken) {
        return Outcome::blocked;
    }
    const Outcome outcome = receive_bytes(operation, socket, size, nullptr, result);
    if (outcome == Outcome::done) {
        learn(operation, socket, PyBytes_GET_SIZE(result.get()), size);
    }
    return outcome;
}

Outcome attempt_recv_into(SockOperationObject* operation, Ref& result) {
    BufferView view;
    if (!writable_buffer(operation->argument, "recv_into", view)) {
        return Outcome::failed;
    }
    const Py_ssize_t size = view.size();
    if (size == 0) {
        return done_with(PyLong_FromLong(0), result);
    }
    const SocketDescriptor socket = descriptor_of(operation);
    if (known_drained(operation->loop, socket) && !operation->woken) {
        return Outcome::blocked;
    }
    const ssize_t count =
        ::recv(socket.fd, view.data(), static_cast<std::size_t>(size), receive_flags);
    const int error = errno;
    view.release();
    if (count < 0) {
        return blocked_or_failed(error);
    }
    learn(operation, socket, count, size);
    return done_with(PyLong_FromSsize_t(count), result);
}

/// The result (data, source address).
Outcome done_from(Ref what, Sender& sender, Ref& result) noexcept {
    const Ref address(what ? address_to_python(sender.generic(), sender.length) : nullptr);
    return address ? done_with(PyTuple_Pack(2, what.get(), address.get()), result)
                   : Outcome::failed;
}

Outcome attempt_recvfrom(SockOperationObject* operation, Ref& result) {
    const Py_ssize_t size = size_of(operation->argument, "recvfrom");
    if (size < 0) {
        return Outcome::failed;
    }
    Sender sender;
    Ref data;
    const Outcome outcome = receive_bytes(operation, descriptor_of(operation), size, &sender, data);
    return outcome == Outcome::done ? done_from(std::move(data), sender, result) : outcome;
}

Outcome attempt_recvfrom_into(SockOperationObject* operation, Ref& result) {
    Py_ssize_t asked =
        operation->more != nullptr ? PyNumber_AsSsize_t(operation->more, PyExc_OverflowError) : 0;
    if (PyErr_Occurred() != nullptr) {
        return Outcome::failed;
    }
    BufferView view;
    if (!writable_buffer(operation->argument, "recvfrom_into", view)) {
        return Outcome::failed;
    }
    if (asked < 0 || asked > view.size()) {
        PyErr_SetString(PyExc_ValueError, asked < 0
                                              ? "negative buffersize in recvfrom_into"
                                              : "nbytes is greater than the length of the buffer");
        return Outcome::failed;
    }
    asked = asked == 0 ? view.size() : asked;
    Sender sender;
    const ssize_t count =
        ::recvfrom(descriptor_of(operation).fd, view.data(), static_cast<std::size_t>(asked),
                   receive_flags, sender.generic(), &sender.length);
    const int error = errno;
    view.release();
    return count < 0 ? blocked_or_failed(error)
                     : done_from(Ref(PyLong_FromSsize_t(count)), sender, result);
}

Outcome attempt_sendall(SockOperationObject* operation, Ref& result) {
    BufferView& view = operation->view;
    if (!view && !view.acquire(operation->argument, PyBUF_SIMPLE)) {
        return Outcome::failed;
    }
    const ssize_t count =
        ::send(descriptor_of(operation).fd, view.data() + operation->sent,
               static_cast<std::size_t>(view.size() - operation->sent), send_flags);
    if (count < 0) {
        return blocked_or_failed(errno);
    }
    operation->sent += count;
    // A short count means that the socket is full. Another attempt would only return EAGAIN.
    return operation->sent == view.size() ? done_with(Py_NewRef(Py_None), result)
                                          : Outcome::blocked;
}

const sockaddr* address_of(const SockOperationObject* operation) noexcept {
    return reinterpret_cast<const sockaddr*>(&operation->address);
}

Outcome attempt_sendto(SockOperationObject* operation, Ref& result) {
    BufferView view;
    if (!view.acquire(operation->argument, PyBUF_SIMPLE)) {
        return Outcome::failed;
    }
    const ssize_t count =
        ::sendto(descriptor_of(operation).fd, view.data(), static_cast<std::size_t>(view.size()),
                 send_flags, address_of(operation), operation->address_length);
    const int error = errno;
    view.release();
    return count < 0 ? blocked_or_failed(error) : done_with(PyLong_FromSsize_t(count), result);
}

Outcome attempt_accept(SockOperationObject* operation, Ref& result) {
    Sender peer;
    const int fd = ::accept4(descriptor_of(operation).fd, peer.generic(), &peer.length,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        return blocked_or_failed(errno);
    }
    return done_from(make_socket_like(operation->loop->state, operation->socket, fd), peer, result);
}

/// The outcome of a connect that continued in the background.
Outcome finish_connect(SockOperationObject* operation, int fd, Ref& result) noexcept {
    int error = 0;
    socklen_t length = sizeof error;
    if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return Outcome::failed;
    }
    if (error == 0) {
        return done_with(Py_NewRef(Py_None), result);
    }
    const Ref address(address_to_python(address_of(operation), operation->address_length));
    const Ref message(address ? PyUnicode_FromFormat("Connect call failed %S", address.get())
                              : nullptr);
    const Ref exception(message ? PyObject_CallFunction(PyExc_OSError, "iO", error, message.get())
                                : nullptr);
    if (exception) {
        PyErr_SetObject(as_object(Py_TYPE(exception.get())), exception.get());
    }
    return Outcome::failed;
}

Outcome attempt_connect(SockOperationObject* operation, Ref& result) {
    const int fd = descriptor_of(operation).fd;
    if (operation->woken) {
        return finish_connect(operation, fd, result);
    }
    if (::connect(fd, address_of(operation), operation->address_length) == 0) {
        return done_with(Py_NewRef(Py_None), result);
    }
    const bool in_background = errno == EINPROGRESS || errno == EALREADY;
    return in_background ? Outcome::blocked : blocked_or_failed(errno);
}

constexpr SockCall recv_call{"sock_recv", "Loop.sock_recv", Direction::read, &attempt_recv};
constexpr SockCall recv_into_call{"sock_recv_into", "Loop.sock_recv_into", Direction::read,
                                  &attempt_recv_into};
constexpr SockCall recvfrom_call{"sock_recvfrom", "Loop.sock_recvfrom", Direction::read,
                                 &attempt_recvfrom};
constexpr SockCall recvfrom_into_call{"sock_recvfrom_into", "Loop.sock_recvfrom_into",
                                      Direction::read, &attempt_recvfrom_into};
constexpr SockCall sendall_call{"sock_sendall", "Loop.sock_sendall", Direction::write,
                                &attempt_sendall};
constexpr SockCall sendto_call{"sock_sendto", "Loop.sock_sendto", Direction::write,
                               &attempt_sendto};
constexpr SockCall accept_call{"sock_accept", "Loop.sock_accept", Direction::read, &attempt_accept};
constexpr SockCall connect_call{"sock_connect", "Loop.sock_connect", Direction::write,
                                &attempt_connect};

/// The arguments of one call of a loop method.
struct Arguments {
    PyObject* const* values;
    Py_ssize_t count;
    PyObject* keywords;

    [[nodiscard]] PyObject* at(Py_ssize_t index) const noexcept {
        return index < count ? values[index] : nullptr;
    }
};

LoopObject* loop_of(PyObject* self) noexcept {
    return reinterpret_cast<LoopObject*>(self);
}

/// asyncio's method of the same name.
PyObject* call_inherited(PyObject* self, const SockCall& call, const Arguments& arguments) {
    const Ref method(PyObject_GetAttrString(loop_of(self)->state->inherited_loop_type, call.name));
    const Ref bound(method ? PyMethod_New(method.get(), self) : nullptr);
    if (!bound) {
        return nullptr;
    }
    return PyObject_Vectorcall(bound.get(), arguments.values,
                               static_cast<std::size_t>(arguments.count), arguments.keywords);
}

bool is_native(PyObject* self, const Arguments& arguments, Py_ssize_t least,
               Py_ssize_t most) noexcept {
    return arguments.keywords == nullptr && arguments.count >= least && arguments.count <= most &&
           is_plain_socket(loop_of(self)->state, arguments.values[0]);
}

PyObject* begin(PyObject* self, const SockCall& call, const Arguments& arguments) noexcept {
    return as_object(make_sock_operation(loop_of(self), call, arguments.values[0], arguments.at(1),
                                         arguments.at(2)));
}

/// Whether address_to_python() supports the socket's address family.
bool has_known_family(PyObject* self, PyObject* socket) noexcept {
    const int family = socket_family(loop_of(self)->state, socket);
    return family == AF_INET || family == AF_INET6 || family == AF_UNIX;
}

/// Makes the operation for an address that needs no resolving; else calls asyncio's method.
PyObject* begin_with_address(PyObject* self, const SockCall& call, const Arguments& arguments,
                             Py_ssize_t position) {
    const int family = socket_family(loop_of(self)->state, arguments.values[0]);
    sockaddr_in6 address;
    const socklen_t length = numeric_address(arguments.values[position], family, address);
    if (length == 0) {
        return call_inherited(self, call, arguments);
    }
    SockOperationObject* operation =
        make_sock_operation(loop_of(self), call, arguments.values[0], arguments.values[1], nullptr);
    if (operation != nullptr) {
        operation->address = address;
        operation->address_length = length;
    }
    return as_object(operation);
}

} // namespace

PyObject* sock_recv(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                    PyObject* keywords) {
    const Arguments given{arguments, count, keywords};
    return is_native(self, given, 2, 2) ? begin(self, recv_call, given)
                                        : call_inherited(self, recv_call, given);
}

PyObject* sock_recv_into(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                         PyObject* keywords) {
    const Arguments given{arguments, count, keywords};
    return is_native(self, given, 2, 2) ? begin(self, recv_into_call, given)
                                        : call_inherited(self, recv_into_call, given);
}

PyObject* sock_recvfrom(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                        PyObject* keywords) {
    const Arguments given{arguments, count, keywords};
    return is_native(self, given, 2, 2) && has_known_family(self, arguments[0])
               ? begin(self, recvfrom_call, given)
               : call_inherited(self, recvfrom_call, given);
}

PyObject* sock_recvfrom_into(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                             PyObject* keywords) {
    const Arguments given{arguments, count, keywords};
    return is_native(self, given, 2, 3) && has_known_family(self, arguments[0])
               ? begin(self, recvfrom_into_call, given)
               : call_inherited(self, recvfrom_into_call, given);
}

PyObject* sock_sendall(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                       PyObject* keywords) {
    const Arguments given{arguments, count, keywords};
    return is_native(self, given, 2, 2) ? begin(self, sendall_call, given)
                                        : call_inherited(self, sendall_call, given);
}

PyObject* sock_sendto(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                      PyObject* keywords) {
    const Arguments given{arguments, count, keywords};
    return is_native(self, given, 3, 3) ? begin_with_address(self, sendto_call, given, 2)
                                        : call_inherited(self, sendto_call, given);
}

PyObject* sock_accept(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                      PyObject* keywords) {
    const Arguments given{arguments, count, keywords};
    return is_native(self, given, 1, 1) && has_known_family(self, arguments[0])
               ? begin(self, accept_call, given)
               : call_inherited(self, accept_call, given);
}

PyObject* sock_connect(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                       PyObject* keywords) {
    const Arguments given{arguments, count, keywords};
    return is_native(self, given, 2, 2) ? begin_with_address(self, connect_call, given, 1)
                                        : call_inherited(self, connect_call, given);
}

} // namespace penstock::python
