// A listening stream socket. Accepts natively and passes each connection to a protocol.

#include "core/slow_callback.hpp"
#include "net/accept_task.hpp"
#include "net/address.hpp"
#include "net/socket_transport.hpp"

#include <cerrno>
#include <cstddef>
#include <new>
#include <optional>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <penstock/io/accept_error.hpp>

namespace penstock::python {

namespace {

/// Made by `Loop._start_serving`, which owns it until `_stop_serving`.
struct ListenerObject {
    PyObject ob_base;
    io::Watch watch;
    LoopObject* loop;
    PyObject* protocol_factory;
    PyObject* server;
    PyObject* context;      ///< of start_serving; connections inherit it
    PyObject* on_accepted;  ///< takes (fd, peer's address) instead of the native path, or null
    PyObject* on_exhausted; ///< takes the OSError when descriptors or memory run out
    int fd;
    int backlog;
};

ListenerObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<ListenerObject*>(object);
}

void stop_listening(ListenerObject* listener) noexcept {
    if (listener->loop != nullptr && listener->loop->io != nullptr) {
        listener->loop->io->poller().remove(listener->watch);
    }
}

/// Descriptors are exhausted: stops watching, since the socket stays readable. Python code logs the
/// error and resumes later.
void pause_listening(ListenerObject* listener, int error) noexcept {
    stop_listening(listener);
    errno = error;
    PyErr_SetFromErrno(PyExc_OSError);
    const Ref exception = take_exception();
    const ProtocolContext context(listener->context); // `on_exhausted` schedules in this context
    if (!Ref(PyObject_CallOneArg(listener->on_exhausted, exception.get()))) {
        report_raised(listener->loop, "Exception while accepting connections", nullptr, nullptr);
    }
}

/// Passes the connection to `on_accepted`, which takes over the descriptor.
void call_accept_callback(ListenerObject* listener, const AcceptedConnection& connection) noexcept {
    const Ref address(address_to_python(reinterpret_cast<const sockaddr*>(&connection.peer),
                                        connection.peer_length));
    const Ref descriptor(address ? PyLong_FromLong(connection.fd) : nullptr);
    if (!descriptor) {
        ::close(connection.fd);
    } else {
        PyObject* arguments[] = {descriptor.get(), address.get()};
        const ProtocolContext context(listener->context); // `on_accepted` is called in this context
        const Ref called(PyObject_Vectorcall(listener->on_accepted, arguments, 2, nullptr));
        if (called) {
            return;
        }
    }
    report_raised(listener->loop, "Exception while accepting a connection", nullptr, nullptr);
}

/// Null when there is none; the reason is reported.
SocketTransportObject* make_transport(ListenerObject* listener,
                                      const AcceptedConnection& connection,
                                      PyObject* context) noexcept {
    const Ref protocol(PyObject_CallNoArgs(listener->protocol_factory));
    if (!protocol) {
        ::close(connection.fd);
        report_raised(listener->loop, "Error on transport creation for incoming connection",
                      nullptr, nullptr);
        return nullptr;
    }
    SocketTransportObject* transport =
        accept_transport(listener->loop, connection, protocol.get(), listener->server, context);
    if (transport == nullptr) {
        report_raised(listener->loop, "Error on transport creation for incoming connection",
                      nullptr, protocol.get());
    }
    return transport;
}

/// Starts the connection in a context of its own. The protocol factory's changes to the context are
/// visible to this connection's callbacks, not to the next connection.
void accept_connection(ListenerObject* listener, const AcceptedConnection& connection,
                       AcceptTask& task) noexcept {
    const Ref context(PyContext_Copy(listener->context));
    if (!context) {
        ::close(connection.fd);
        report_raised(listener->loop, "Exception while accepting a connection", nullptr, nullptr);
        return;
    }
    SocketTransportObject* transport = nullptr;
    {
        const ProtocolContext entered(context.get());
        transport = make_transport(listener, connection, context.get());
    }
    if (transport != nullptr) {
        task.add(as_object(transport));
        start_transport(transport);
        Py_DECREF(transport);
    }
}

// As many connections as asyncio accepts in an iteration, unless their protocols are slow: then the
// rest wait for the next iteration, so that a storm of connections delays others by
// `callbacks_slice` and one of them.
void accept_all(ListenerObject* listener) noexcept {
    std::optional<AcceptTask> task;
    io::TimeSlice slice(callbacks_slice);
    slice.begin();
    for (int accepted = 0; accepted < listener->backlog; ++accepted) {
        sockaddr_storage peer{};
        socklen_t length = sizeof peer;
        const int fd = ::accept4(listener->fd, reinterpret_cast<sockaddr*>(&peer), &length,
                                 SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            const io::AcceptError kind = io::kind_of_accept_error(errno);
            if (kind == io::AcceptError::of_resources) {
                pause_listening(listener, errno);
            } else if (kind == io::AcceptError::of_listener && errno != EAGAIN) {
                PyErr_SetFromErrno(PyExc_OSError);
                report_raised(listener->loop, "Exception while accepting connections", nullptr,
                              nullptr);
            }
            return;
        }
        const AcceptedConnection connection{.fd = fd, .peer = peer, .peer_length = length};
        if (listener->on_accepted != nullptr) {
            call_accept_callback(listener, connection);
        } else {
            if (!task) {
                task.emplace(listener->loop);
            }
            accept_connection(listener, connection, *task);
        }
        if (listener->loop->pending_exception != nullptr || listener->watch.fd < 0) {
            return; // interrupted, or a callback has stopped the listener
        }
        if (slice.is_over()) {
            return;
        }
    }
}

void on_listener_ready(io::Watch& watch, std::uint32_t /*events*/) {
    ListenerObject* listener = &io::owner_of<&ListenerObject::watch>(watch);
    const Ref alive = Ref::borrow(as_object(listener));
    const SlowCallbackWatch slowness(listener->loop, as_object(listener));
    accept_all(listener);
}

PyObject* listener_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"loop",    "sock",         "protocol_factory", "server",
                                  "backlog", "on_exhausted", "on_accepted",      nullptr};
    PyObject* loop_object = nullptr;
    PyObject* socket = nullptr;
    PyObject* protocol_factory = nullptr;
    PyObject* server = nullptr;
    PyObject* on_exhausted = nullptr;
    PyObject* on_accepted = Py_None;
    int backlog = 0;
    const ModuleState* state = state_of(type);
    if (state == nullptr ||
        !PyArg_ParseTupleAndKeywords(arguments, keywords, "O!OOOiO|O:Listener",
                                     const_cast<char**>(names), state->loop_type, &loop_object,
                                     &socket, &protocol_factory, &server, &backlog, &on_exhausted,
                                     &on_accepted)) {
        return nullptr;
    }
    auto* loop = reinterpret_cast<LoopObject*>(loop_object);
    const int fd = PyObject_AsFileDescriptor(socket);
    if (fd < 0 || !check_open(loop)) {
        return nullptr;
    }
    Ref self(type->tp_alloc(type, 0));
    if (!self) {
        return nullptr;
    }
    ListenerObject* listener = self_of(self.get());
    new (&listener->watch) io::Watch(&on_listener_ready);
    listener->loop = reinterpret_cast<LoopObject*>(Py_NewRef(loop_object));
    listener->protocol_factory = Py_NewRef(protocol_factory);
    listener->server = server != Py_None ? Py_NewRef(server) : nullptr;
    listener->on_exhausted = Py_NewRef(on_exhausted);
    listener->on_accepted = on_accepted != Py_None ? Py_NewRef(on_accepted) : nullptr;
    listener->fd = fd;
    listener->backlog = backlog > 0 ? backlog : 1;
    listener->context = PyContext_CopyCurrent();
    if (listener->context == nullptr || !check_open(loop)) { // a finalizer may have closed the loop
        return nullptr;
    }
    // Accepted sockets inherit TCP_NODELAY on Linux: one call here instead of one for each
    // connection. It fails on a Unix socket, which does no harm.
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (const std::error_code error = loop->io->poller().add(listener->watch, fd, io::readable)) {
        errno = error.value();
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return self.release();
}

PyObject* listener_stop(PyObject* self, PyObject* /*unused*/) {
    stop_listening(self_of(self));
    Py_RETURN_NONE;
}

int listener_traverse(PyObject* self, visitproc visit, void* arg) {
    ListenerObject* listener = self_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(listener->loop);
    Py_VISIT(listener->protocol_factory);
    Py_VISIT(listener->server);
    Py_VISIT(listener->context);
    Py_VISIT(listener->on_accepted);
    Py_VISIT(listener->on_exhausted);
    return 0;
}

int listener_clear(PyObject* self) {
    ListenerObject* listener = self_of(self);
    stop_listening(listener);
    Py_CLEAR(listener->loop);
    Py_CLEAR(listener->protocol_factory);
    Py_CLEAR(listener->server);
    Py_CLEAR(listener->context);
    Py_CLEAR(listener->on_accepted);
    Py_CLEAR(listener->on_exhausted);
    return 0;
}

void listener_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    listener_clear(self);
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef listener_methods[] = {
    {"stop", &listener_stop, METH_NOARGS, "Stop accepting. The socket stays open."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot listener_slots[] = {
    {Py_tp_doc, const_cast<char*>("Accepts connections of a listening stream socket.")},
    {Py_tp_new, reinterpret_cast<void*>(&listener_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&listener_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&listener_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&listener_clear)},
    {Py_tp_methods, listener_methods},
    {0, nullptr},
};

PyType_Spec listener_spec = {
    .name = "penstock._core.Listener",
    .basicsize = sizeof(ListenerObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = listener_slots,
};

} // namespace

bool add_listener_type(PyObject* module, ModuleState* state) {
    state->listener_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &listener_spec, nullptr));
    return state->listener_type != nullptr && PyModule_AddType(module, state->listener_type) == 0;
}

} // namespace penstock::python
