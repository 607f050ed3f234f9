// The socket transport's Python type: its methods and attributes.

#include "net/socket_transport.hpp"

#include "core/fd_callbacks.hpp"
#include "net/address.hpp"
#include "net/transport_base.hpp"

#include <cerrno>

#include <netinet/tcp.h>
#include <structmember.h>
#include <unistd.h>

namespace penstock::python {

namespace {

using Methods = TransportMethods<SocketTransportObject>;

/// Makes the socket object that then owns the descriptor, for `get_extra_info('socket')`.
bool make_socket(SocketTransportObject* transport) noexcept {
    if (transport->socket != nullptr || transport->fd < 0) {
        return true;
    }
    const Ref fd(PyLong_FromLong(transport->fd));
    const Ref family(PyLong_FromLong(transport->family));
    PyObject* arguments[] = {fd.get(), family.get()};
    Ref socket =
        fd && family ? upcall(state_of(Py_TYPE(transport)), "socket_for", arguments, 2) : Ref();
    if (!socket) {
        return false;
    }
    if (transport->socket != nullptr ||
        transport->fd < 0) { // a finalizer that ran meanwhile has made one
        return static_cast<bool>(Ref(PyObject_CallMethod(socket.get(), "detach", nullptr)));
    }
    transport->socket = socket.release();
    return true;
}

/// Saves the peer's address at once, as asyncio does: it is unknown once the connection has ended.
bool save_peer_address(SocketTransportObject* transport, int fd) noexcept {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    return ::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
           save_address(transport, transport->loop->state->name_peername, address, length,
                        transport->peer_address, transport->peer_address_length);
}

PyObject* transport_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"loop", "sock", "protocol", "waiter", "extra", "server", nullptr};
    PyObject* loop_object = nullptr;
    PyObject* socket = nullptr;
    PyObject* protocol = nullptr;
    PyObject* waiter = Py_None;
    PyObject* extra = Py_None;
    PyObject* server = Py_None;
    const ModuleState* state = state_of(type);
    if (state == nullptr ||
        !PyArg_ParseTupleAndKeywords(arguments, keywords, "O!OO|OOO:SocketTransport",
                                     const_cast<char**>(names), state->loop_type, &loop_object,
                                     &socket, &protocol, &waiter, &extra, &server)) {
        return nullptr;
    }
    auto* loop = reinterpret_cast<LoopObject*>(loop_object);
    if (!check_open(loop) || !check_no_transport(loop, socket) ||
        !check_protocol(state, protocol)) {
        return nullptr;
    }
    if (extra != Py_None && !PyDict_Check(extra)) {
        return PyErr_Format(PyExc_TypeError, "extra must be a dict or None, not %R", extra);
    }
    const int fd = PyObject_AsFileDescriptor(socket);
    const Ref family(PyObject_GetAttrString(socket, "family"));
    if (fd < 0 || !family) {
        return nullptr;
    }
    SocketTransportObject* transport = allocate_transport(loop);
    const Ref owner(as_object(transport));
    if (!owner) {
        return nullptr;
    }
    transport->family = static_cast<sa_family_t>(PyLong_AsLong(family.get()));
    transport->extra = extra != Py_None ? PyDict_Copy(extra) : nullptr;
    if (PyErr_Occurred() != nullptr || !save_peer_address(transport, fd)) {
        return nullptr;
    }
    if (transport->family == AF_INET || transport->family == AF_INET6) {
        const int on = 1;
        ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    if (!open_transport(transport, protocol, server)) {
        return nullptr;
    }
    transport->socket = Py_NewRef(socket);
    transport->fd = fd;
    if (waiter != Py_None) {
        transport->waiter = Py_NewRef(waiter);
    }
    if (!schedule_start(transport)) {
        unlink_from_loop(loop->transports, transport);
        return nullptr;
    }
    return Py_NewRef(owner.get());
}

PyObject* transport_close(PyObject* self, PyObject* /*unused*/) {
    return close_gracefully(transport_of(self)) ? Py_NewRef(Py_None) : nullptr;
}

PyObject* transport_abort(PyObject* self, PyObject* /*unused*/) {
    SocketTransportObject* transport = transport_of(self);
    if (transport->loop != nullptr && transport->lost == 0 && !check_open(transport->loop)) {
        return nullptr;
    }
    force_close(transport, nullptr);
    return PyErr_Occurred() == nullptr ? Py_NewRef(Py_None) : nullptr;
}

PyObject* transport_force_close(PyObject* self, PyObject* reason) {
    const Ref exception(reason != Py_None ? exception_of(reason).release() : nullptr);
    if (!exception && reason != Py_None) {
        return nullptr;
    }
    force_close(transport_of(self), exception.get());
    return PyErr_Occurred() == nullptr ? Py_NewRef(Py_None) : nullptr;
}

PyObject* transport_pause_reading(PyObject* self, PyObject* /*unused*/) {
    SocketTransportObject* transport = transport_of(self);
    if (!transport->closing && !transport->paused) {
        transport->paused = true;
        update_interest(transport);
    }
    Py_RETURN_NONE;
}

PyObject* transport_resume_reading(PyObject* self, PyObject* /*unused*/) {
    SocketTransportObject* transport = transport_of(self);
    if (!transport->closing && transport->paused) {
        transport->paused = false;
        update_interest(transport);
    }
    Py_RETURN_NONE;
}

PyObject* transport_can_write_eof(PyObject* /*self*/, PyObject* /*unused*/) {
    Py_RETURN_TRUE;
}

PyObject* transport_get_write_buffer_size(PyObject* self, PyObject* /*unused*/) {
    return PyLong_FromSize_t(queued(transport_of(self)));
}

PyObject* transport_set_protocol(PyObject* self, PyObject* protocol) {
    SocketTransportObject* transport = transport_of(self);
    if (transport->loop == nullptr) {
        Py_RETURN_NONE; // the connection is lost: nothing will be called any more
    }
    return bind_protocol(transport, protocol) ? Py_NewRef(Py_None) : nullptr;
}

PyObject* shown_address(const sockaddr_in6& address, socklen_t length) noexcept {
    return address_to_python(reinterpret_cast<const sockaddr*>(&address), length);
}

using AddressCall = int (*)(int, sockaddr*, socklen_t*);

PyObject* call_address(const SocketTransportObject* transport, AddressCall call) noexcept {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (transport->fd < 0 || call(transport->fd, generic, &length) != 0) {
        Py_RETURN_NONE;
    }
    return address_to_python(generic, length);
}

/// Values that asyncio computes for every connection and that most programs never request.
Ref compute_extra(SocketTransportObject* transport, PyObject* name) noexcept {
    if (PyUnicode_CompareWithASCIIString(name, "peername") == 0) {
        return Ref(transport->peer_address_length > 0
                       ? shown_address(transport->peer_address, transport->peer_address_length)
                       : call_address(transport, &::getpeername));
    }
    if (PyUnicode_CompareWithASCIIString(name, "sockname") == 0) {
        const SavedAddress* saved = transport->local_address;
        return Ref(saved != nullptr ? shown_address(saved->address, saved->length)
                                    : call_address(transport, &::getsockname));
    }
    return Ref();
}

/// The value of `socket`: always the same object, in a field of its own because servers request it
/// for every connection (TCP_NODELAY), and a dictionary for it would take 200 bytes.
Ref show_socket(SocketTransportObject* transport) noexcept {
    if (transport->shown_socket == nullptr) {
        if (!make_socket(transport)) {
            return Ref();
        }
        const Ref family(PyLong_FromLong(transport->family));
        const Ref socket = Ref::borrow(transport->socket != nullptr ? transport->socket : Py_None);
        PyObject* arguments[] = {socket.get(), family.get()};
        Ref shown =
            family ? upcall(state_of(Py_TYPE(transport)), "transport_socket", arguments, 2) : Ref();
        if (!shown || transport->shown_socket != nullptr) {
            return shown ? Ref::borrow(transport->shown_socket) : Ref();
        }
        transport->shown_socket = shown.release();
    }
    return Ref::borrow(transport->shown_socket);
}

PyObject* transport_get_extra_info(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                                   PyObject* keywords) {
    InfoRequest info{};
    if (!info.parse(arguments, count, keywords)) {
        return nullptr;
    }
    SocketTransportObject* transport = transport_of(self);
    if (transport->extra != nullptr) {
        if (PyObject* known = PyDict_GetItemWithError(transport->extra, info.name)) {
            return Py_NewRef(known);
        }
    } else if (PyObject_Hash(info.name) == -1) {
        return nullptr; // as the look-up would
    }
    if (PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    if (PyUnicode_Check(info.name)) {
        const bool socket = PyUnicode_CompareWithASCIIString(info.name, "socket") == 0;
        Ref value = socket ? show_socket(transport) : compute_extra(transport, info.name);
        if (socket && value) {
            return value.release();
        }
        if (value) {
            if (transport->extra == nullptr) {
                transport->extra = PyDict_New();
            }
            return transport->extra != nullptr &&
                           PyDict_SetItem(transport->extra, info.name, value.get()) == 0
                       ? value.release()
                       : nullptr;
        }
        if (PyErr_Occurred() != nullptr) {
            return nullptr;
        }
    }
    return Py_NewRef(info.fallback);
}

PyObject* transport_make_empty_waiter(PyObject* self, PyObject* /*unused*/) {
    SocketTransportObject* transport = transport_of(self);
    if (transport->empty_waiter != nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "Empty waiter is already set");
        return nullptr;
    }
    if (transport->loop == nullptr) {
        PyErr_SetString(PyExc_ConnectionError, "Connection is closed by peer");
        return nullptr;
    }
    Ref waiter(PyObject_CallMethod(as_object(transport->loop), "create_future", nullptr));
    if (!waiter) {
        return nullptr;
    }
    const ModuleState* state = state_of(Py_TYPE(transport));
    if (queued(transport) == 0 &&
        !Ref(PyObject_CallMethodOneArg(waiter.get(), state->name_set_result, Py_None))) {
        return nullptr;
    }
    Py_XSETREF(transport->empty_waiter, Py_NewRef(waiter.get()));
    return waiter.release();
}

PyObject* transport_reset_empty_waiter(PyObject* self, PyObject* /*unused*/) {
    Py_CLEAR(transport_of(self)->empty_waiter);
    Py_RETURN_NONE;
}

/// Sets what is called while the socket takes data, and told of the end of the connection; None for
/// nothing. The descriptor has one watch, the transport's: a sendfile that watched it by itself
/// would end when the protocol resumes reading.
PyObject* transport_set_file_sender(PyObject* self, PyObject* sender) {
    SocketTransportObject* transport = transport_of(self);
    Py_XSETREF(transport->file_sender, sender != Py_None ? Py_NewRef(sender) : nullptr);
    update_interest(transport);
    Py_RETURN_NONE;
}

PyObject* transport_repr(PyObject* self) {
    return Methods::describe(self, "SocketTransport", queued(transport_of(self)));
}

PyObject* get_socket_attribute(PyObject* self, void* /*unused*/) {
    SocketTransportObject* transport = transport_of(self);
    if (transport->fd < 0) {
        Py_RETURN_NONE;
    }
    if (!make_socket(transport)) {
        return nullptr;
    }
    return Py_NewRef(transport->socket != nullptr ? transport->socket : Py_None);
}

PyObject* get_true(PyObject* /*self*/, void* /*unused*/) {
    Py_RETURN_TRUE;
}

PyObject* get_sendfile_mode(PyObject* self, void* /*unused*/) {
    return upcall(state_of(Py_TYPE(self)), "sendfile_mode", nullptr, 0).release();
}

void close_unannounced(SocketTransportObject* transport) noexcept {
    close_descriptor(transport);
    detach_from_server(transport);
}

int transport_traverse(PyObject* self, visitproc visit, void* arg) {
    SocketTransportObject* transport = transport_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(transport->extra);
    Py_VISIT(transport->loop);
    Py_VISIT(transport->protocol);
    Py_VISIT(transport->attributes);
    Py_VISIT(transport->stream);
    Py_VISIT(transport->asyncio_reader);
    Py_VISIT(transport->context);
    Py_VISIT(transport->socket);
    Py_VISIT(transport->shown_socket);
    Py_VISIT(transport->server);
    Py_VISIT(transport->waiter);
    Py_VISIT(transport->empty_waiter);
    Py_VISIT(transport->file_sender);
    Py_VISIT(transport->lost_reason);
    return 0;
}

int transport_clear(PyObject* self) {
    SocketTransportObject* transport = transport_of(self);
    transport->native = nullptr;
    Py_CLEAR(transport->extra);
    Py_CLEAR(transport->protocol);
    Py_CLEAR(transport->attributes);
    Py_CLEAR(transport->stream);
    Py_CLEAR(transport->asyncio_reader);
    Py_CLEAR(transport->context);
    Py_CLEAR(transport->shown_socket);
    Py_CLEAR(transport->server);
    Py_CLEAR(transport->waiter);
    Py_CLEAR(transport->empty_waiter);
    Py_CLEAR(transport->file_sender);
    Py_CLEAR(transport->lost_reason);
    PyMem_Free(std::exchange(transport->local_address, nullptr));
    return 0;
}

constexpr Parameters write_parameters{"write", "data"};
constexpr Parameters writelines_parameters{"writelines", "list_of_data"};
constexpr Parameters set_protocol_parameters{"set_protocol", "protocol"};

PyMethodDef transport_methods[] = {
    {"write", as_function(&with_one_parameter<&transport_write, write_parameters>),
     METH_FASTCALL | METH_KEYWORDS, "Send data; what the kernel does not take now is queued."},
    {"writelines", as_function(&with_one_parameter<&transport_writelines, writelines_parameters>),
     METH_FASTCALL | METH_KEYWORDS, "Send several chunks with one system call."},
    {"write_eof", &transport_write_eof, METH_NOARGS, "End the sending side after queued data."},
    {"can_write_eof", &transport_can_write_eof, METH_NOARGS, "True."},
    {"close", &transport_close, METH_NOARGS, "Close after queued data was sent."},
    {"abort", &transport_abort, METH_NOARGS, "Close at once; queued data is dropped."},
    {"_force_close", &transport_force_close, METH_O, nullptr},
    {"is_closing", &Methods::is_closing, METH_NOARGS, "Whether it is closing or closed."},
    {"is_reading", &Methods::is_reading, METH_NOARGS, "Whether received data is delivered."},
    {"pause_reading", &transport_pause_reading, METH_NOARGS, "Stop delivering received data."},
    {"resume_reading", &transport_resume_reading, METH_NOARGS, "Undo pause_reading()."},
    {"get_write_buffer_size", &transport_get_write_buffer_size, METH_NOARGS,
     "Bytes that wait to be sent."},
    {"get_write_buffer_limits", &Methods::get_write_buffer_limits, METH_NOARGS,
     "The water marks (low, high) of flow control."},
    {"set_write_buffer_limits", as_function(&transport_set_write_buffer_limits),
     METH_VARARGS | METH_KEYWORDS, "Set the water marks of flow control, in bytes."},
    {"get_protocol", &Methods::get_protocol, METH_NOARGS, "The protocol."},
    {"set_protocol",
     as_function(&with_one_parameter<&transport_set_protocol, set_protocol_parameters>),
     METH_FASTCALL | METH_KEYWORDS, "Switch to another protocol."},
    {"get_extra_info", as_function(&transport_get_extra_info), METH_FASTCALL | METH_KEYWORDS,
     "socket, sockname, peername, and what create_connection() added."},
    {"_make_empty_waiter", &transport_make_empty_waiter, METH_NOARGS, nullptr},
    {"_reset_empty_waiter", &transport_reset_empty_waiter, METH_NOARGS, nullptr},
    {"_set_file_sender", &transport_set_file_sender, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef transport_attributes[] = {
    {"_protocol", &Methods::protocol_attribute, nullptr, nullptr, nullptr},
    {"_loop", &Methods::loop_attribute, nullptr, nullptr, nullptr},
    {"_protocol_paused", &Methods::protocol_paused, nullptr, nullptr, nullptr},
    {"_sock", &get_socket_attribute, nullptr, nullptr, nullptr},
    {"_start_tls_compatible", &get_true, nullptr, nullptr, nullptr},
    {"_sendfile_compatible", &get_sendfile_mode, nullptr, nullptr, nullptr},
    {"__dict__", &PyObject_GenericGetDict, &PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef transport_members[] = {
    {"_sock_fd", T_INT, offsetof(SocketTransportObject, fd), READONLY, nullptr},
    {"_paused", T_BOOL, offsetof(SocketTransportObject, paused), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(SocketTransportObject, attributes), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(SocketTransportObject, weak_references), READONLY,
     nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot transport_slots[] = {
    {Py_tp_doc, const_cast<char*>("The transport of a connected TCP or Unix stream socket.")},
    {Py_tp_new, reinterpret_cast<void*>(&transport_new)},
    {Py_tp_init, reinterpret_cast<void*>(&Methods::keep_init)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&Methods::deallocate<&transport_clear>)},
    {Py_tp_finalize, reinterpret_cast<void*>(&Methods::finalize<&close_unannounced>)},
    {Py_tp_traverse, reinterpret_cast<void*>(&transport_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&transport_clear)},
    {Py_tp_repr, reinterpret_cast<void*>(&transport_repr)},
    {Py_tp_methods, transport_methods},
    {Py_tp_members, transport_members},
    {Py_tp_getset, transport_attributes},
    {0, nullptr},
};

PyType_Spec transport_spec = {
    .name = "penstock._core.SocketTransport",
    .basicsize = sizeof(SocketTransportObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = transport_slots,
};

} // namespace

bool add_socket_transport_type(PyObject* module, ModuleState* state) {
    // asyncio's sendfile fallback requires this private base class, a Transport.
    const Ref transports(PyImport_ImportModule("asyncio.transports"));
    const Ref base(transports ? PyObject_GetAttrString(transports.get(), "_FlowControlMixin")
                              : nullptr);
    if (!base) {
        return false;
    }
    const auto* base_type = reinterpret_cast<PyTypeObject*>(base.get());
    if (base_type->tp_basicsize !=
        static_cast<Py_ssize_t>(offsetof(SocketTransportObject, watch))) {
        PyErr_SetString(PyExc_ImportError, "asyncio's transport base class of this Python has "
                                           "slots that penstock does not support");
        return false;
    }
    state->socket_transport_type = reinterpret_cast<PyTypeObject*>(
        PyType_FromModuleAndSpec(module, &transport_spec, base.get()));
    return state->socket_transport_type != nullptr &&
           PyModule_AddType(module, state->socket_transport_type) == 0;
}

} // namespace penstock::python
