// The datagram transport's Python type, and how a transport is made, started and closed.

#include "net/datagram_transport.hpp"

#include "core/fd_callbacks.hpp"
#include "net/socket_transport.hpp"
#include "net/transport_base.hpp"

#include <new>

#include <structmember.h>

namespace penstock::python {

namespace {

using Methods = TransportMethods<DatagramTransportObject>;

constexpr std::size_t datagram_high_water = std::size_t{64} * 1024;

/// Calls a method of the protocol with the transport's context entered. Reports an exception.
void notify_protocol(DatagramTransportObject* transport, PyObject* method, PyObject* argument,
                     const char* failure) noexcept {
    Ref result;
    {
        const ProtocolContext context(transport->context);
        const Ref protocol = Ref::borrow(transport->protocol);
        result = Ref(PyObject_CallMethodOneArg(protocol.get(), method, argument));
    }
    if (!result) {
        report_raised(transport->loop, failure, as_object(transport), transport->protocol);
    }
}

void start_step(LoopObject* loop, PyObject* target) {
    DatagramTransportObject* transport = datagram_transport_of(target);
    if (transport->loop == nullptr || transport->protocol == nullptr) {
        return;
    }
    notify_protocol(transport, loop->state->name_connection_made, target,
                    "Exception in callback protocol.connection_made()");
    transport->started = true;
    update_interest(transport);
    finish_waiter(loop, Ref(std::exchange(transport->waiter, nullptr)), target);
}

void close_socket(DatagramTransportObject* transport) noexcept {
    transport->fd = -1;
    const Ref socket(std::exchange(transport->socket, nullptr));
    if (socket && !Ref(PyObject_CallMethod(socket.get(), "close", nullptr))) {
        PyErr_WriteUnraisable(as_object(transport));
    }
}

DatagramTransportObject* allocate(LoopObject* loop) noexcept {
    PyTypeObject* type = loop->state->datagram_transport_type;
    auto* transport = datagram_transport_of(type->tp_alloc(type, 0));
    if (transport == nullptr) {
        return nullptr;
    }
    new (&transport->watch) io::Watch(&on_datagram_ready);
    transport->loop = reinterpret_cast<LoopObject*>(Py_NewRef(as_object(loop)));
    transport->fd = -1;
    transport->expected = 1;
    transport->water_marks = WaterMarks::below(datagram_high_water);
    return transport;
}

/// Whether the socket has a peer. asyncio also decides by the address.
int has_peer(PyObject* extra) noexcept {
    PyObject* peer = PyDict_GetItemString(extra, "peername");
    return peer != nullptr ? PyObject_IsTrue(peer) : 0;
}

/// asyncio treats such a socket as one without a peer, and cannot send on it without an address.
bool has_unnamed_peer(PyObject* extra) noexcept {
    PyObject* peer = PyDict_GetItemString(extra, "peername");
    return peer != nullptr && PyUnicode_Check(peer) && PyUnicode_GET_LENGTH(peer) == 0;
}

// ---- Python's view ------------------------------------------------------------------------------

PyObject* transport_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"loop",   "sock",  "protocol", "address",
                                  "waiter", "extra", nullptr};
    PyObject* loop_object = nullptr;
    PyObject* socket = nullptr;
    PyObject* protocol = nullptr;
    PyObject* address = Py_None;
    PyObject* waiter = Py_None;
    PyObject* extra = Py_None;
    const ModuleState* state = state_of(type);
    if (state == nullptr ||
        !PyArg_ParseTupleAndKeywords(arguments, keywords, "O!OO|OOO:DatagramTransport",
                                     const_cast<char**>(names), state->loop_type, &loop_object,
                                     &socket, &protocol, &address, &waiter, &extra)) {
        return nullptr;
    }
    auto* loop = reinterpret_cast<LoopObject*>(loop_object);
    if (!check_open(loop) || !check_no_transport(loop, socket) ||
        !check_protocol(state, protocol)) {
        return nullptr;
    }
    const int fd = PyObject_AsFileDescriptor(socket);
    const Ref family(fd >= 0 ? PyObject_GetAttrString(socket, "family") : nullptr);
    DatagramTransportObject* transport = family ? allocate(loop) : nullptr;
    const Ref owner(as_object(transport));
    if (!owner) {
        return nullptr;
    }
    transport->family = static_cast<int>(PyLong_AsLong(family.get()));
    PyObject* described[] = {socket, extra};
    transport->extra = upcall(loop->state, "describe_socket", described, 2).release();
    const int connected = transport->extra != nullptr ? has_peer(transport->extra) : -1;
    const int has_target = connected >= 0 ? PyObject_IsTrue(address) : -1;
    transport->context = PyContext_CopyCurrent();
    if (PyErr_Occurred() != nullptr || has_target < 0 || transport->context == nullptr) {
        return nullptr;
    }
    transport->protocol = Py_NewRef(protocol);
    transport->connected = connected != 0;
    transport->unnamed_peer = has_unnamed_peer(transport->extra);
    transport->fixed_target = has_target != 0 ? Py_NewRef(address) : nullptr;
    transport->waiter = waiter != Py_None ? Py_NewRef(waiter) : nullptr;
    transport->socket = Py_NewRef(socket);
    transport->fd = fd;
    link_to_loop(loop->datagram_transports, transport);
    if (!schedule_native(loop, &start_step, as_object(transport))) {
        unlink_from_loop(loop->datagram_transports, transport);
        return nullptr;
    }
    return Py_NewRef(owner.get());
}

PyObject* transport_close(PyObject* self, PyObject* /*unused*/) {
    DatagramTransportObject* transport = datagram_transport_of(self);
    if (transport->closing || transport->loop == nullptr) {
        Py_RETURN_NONE;
    }
    if (!check_open(transport->loop)) {
        return nullptr;
    }
    transport->closing = true;
    update_interest(transport);
    if (!has_queued(transport)) {
        transport->lost = 1;
        if (!schedule_loss(transport)) {
            return nullptr;
        }
    }
    Py_RETURN_NONE;
}

PyObject* transport_abort(PyObject* self, PyObject* /*unused*/) {
    force_close(datagram_transport_of(self), nullptr);
    return PyErr_Occurred() == nullptr ? Py_NewRef(Py_None) : nullptr;
}

PyObject* transport_pause_reading(PyObject* self, PyObject* /*unused*/) {
    DatagramTransportObject* transport = datagram_transport_of(self);
    if (!transport->closing && !transport->paused) {
        transport->paused = true;
        update_interest(transport);
    }
    Py_RETURN_NONE;
}

PyObject* transport_resume_reading(PyObject* self, PyObject* /*unused*/) {
    DatagramTransportObject* transport = datagram_transport_of(self);
    if (transport->closing || !transport->paused) {
        Py_RETURN_NONE;
    }
    transport->paused = false;
    if (transport->undelivered != nullptr &&
        !schedule_native(transport->loop, &deliver_undelivered, self)) {
        return nullptr;
    }
    update_interest(transport);
    Py_RETURN_NONE;
}

PyObject* transport_get_write_buffer_size(PyObject* self, PyObject* /*unused*/) {
    return PyLong_FromSize_t(datagram_transport_of(self)->queued_size);
}

PyObject* transport_set_limits(PyObject* self, PyObject* arguments, PyObject* keywords) {
    DatagramTransportObject* transport = datagram_transport_of(self);
    if (!WaterMarks::parse(transport->water_marks, arguments, keywords,
                           "|OO:set_write_buffer_limits", datagram_high_water)) {
        return nullptr;
    }
    if (transport->loop != nullptr) {
        pause_protocol_if_full(transport);
    }
    Py_RETURN_NONE;
}

PyObject* transport_set_protocol(PyObject* self, PyObject* protocol) {
    DatagramTransportObject* transport = datagram_transport_of(self);
    if (transport->loop != nullptr) { // otherwise nothing will be called any more
        Py_XSETREF(transport->protocol, Py_NewRef(protocol));
    }
    Py_RETURN_NONE;
}

PyObject* transport_repr(PyObject* self) {
    return Methods::describe(self, "DatagramTransport", datagram_transport_of(self)->queued_size);
}

int transport_traverse(PyObject* self, visitproc visit, void* arg) {
    DatagramTransportObject* transport = datagram_transport_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(transport->extra);
    Py_VISIT(transport->loop);
    Py_VISIT(transport->protocol);
    Py_VISIT(transport->attributes);
    Py_VISIT(transport->context);
    Py_VISIT(transport->socket);
    Py_VISIT(transport->fixed_target);
    Py_VISIT(transport->waiter);
    Py_VISIT(transport->lost_reason);
    Py_VISIT(transport->undelivered);
    if (transport->queue != nullptr) {
        for (const UnsentDatagram& datagram : *transport->queue) {
            Py_VISIT(datagram.target.get());
        }
    }
    return 0;
}

int transport_clear(PyObject* self) {
    DatagramTransportObject* transport = datagram_transport_of(self);
    Py_CLEAR(transport->extra);
    Py_CLEAR(transport->protocol);
    Py_CLEAR(transport->attributes);
    Py_CLEAR(transport->context);
    Py_CLEAR(transport->fixed_target);
    Py_CLEAR(transport->waiter);
    Py_CLEAR(transport->lost_reason);
    Py_CLEAR(transport->undelivered);
    drop_queue(transport);
    return 0;
}

constexpr Parameters set_protocol_parameters{"set_protocol", "protocol"};

PyMethodDef transport_methods[] = {
    {"sendto", as_function(&datagram_transport_sendto), METH_FASTCALL | METH_KEYWORDS,
     "Send a datagram; what the kernel does not take now is queued."},
    {"close", &transport_close, METH_NOARGS, "Close after queued datagrams were sent."},
    {"abort", &transport_abort, METH_NOARGS, "Close at once; queued datagrams are dropped."},
    {"is_closing", &Methods::is_closing, METH_NOARGS, "Whether it is closing or closed."},
    {"is_reading", &Methods::is_reading, METH_NOARGS, "Whether datagrams are delivered."},
    {"pause_reading", &transport_pause_reading, METH_NOARGS, "Stop delivering datagrams."},
    {"resume_reading", &transport_resume_reading, METH_NOARGS, "Undo pause_reading()."},
    {"get_write_buffer_size", &transport_get_write_buffer_size, METH_NOARGS,
     "Bytes that wait to be sent."},
    {"get_write_buffer_limits", &Methods::get_write_buffer_limits, METH_NOARGS,
     "The water marks (low, high) of flow control."},
    {"set_write_buffer_limits", as_function(&transport_set_limits), METH_VARARGS | METH_KEYWORDS,
     "Set the water marks of flow control, in bytes."},
    {"get_protocol", &Methods::get_protocol, METH_NOARGS, "The protocol."},
    {"set_protocol",
     as_function(&with_one_parameter<&transport_set_protocol, set_protocol_parameters>),
     METH_FASTCALL | METH_KEYWORDS, "Switch to another protocol."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef transport_attributes[] = {
    {"_protocol", &Methods::protocol_attribute, nullptr, nullptr, nullptr},
    {"_loop", &Methods::loop_attribute, nullptr, nullptr, nullptr},
    {"_protocol_paused", &Methods::protocol_paused, nullptr, nullptr, nullptr},
    {"__dict__", &PyObject_GenericGetDict, &PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef transport_members[] = {
    {"_sock", T_OBJECT, offsetof(DatagramTransportObject, socket), READONLY, nullptr},
    {"_sock_fd", T_INT, offsetof(DatagramTransportObject, fd), READONLY, nullptr},
    {"_address", T_OBJECT, offsetof(DatagramTransportObject, fixed_target), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(DatagramTransportObject, attributes), READONLY,
     nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(DatagramTransportObject, weak_references), READONLY,
     nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot transport_slots[] = {
    {Py_tp_doc, const_cast<char*>("The transport of a UDP or Unix datagram socket.")},
    {Py_tp_new, reinterpret_cast<void*>(&transport_new)},
    {Py_tp_init, reinterpret_cast<void*>(&Methods::keep_init)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&Methods::deallocate<&transport_clear>)},
    {Py_tp_finalize, reinterpret_cast<void*>(&Methods::finalize<&close_socket>)},
    {Py_tp_traverse, reinterpret_cast<void*>(&transport_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&transport_clear)},
    {Py_tp_repr, reinterpret_cast<void*>(&transport_repr)},
    {Py_tp_methods, transport_methods},
    {Py_tp_members, transport_members},
    {Py_tp_getset, transport_attributes},
    {0, nullptr},
};

PyType_Spec transport_spec = {
    .name = "penstock._core.DatagramTransport",
    .basicsize = sizeof(DatagramTransportObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = transport_slots,
};

} // namespace

std::uint32_t wanted_interest(const DatagramTransportObject* transport) noexcept {
    const bool reading = transport->started && !transport->closing && !transport->paused &&
                         transport->undelivered == nullptr;
    const bool writing = transport->lost == 0 && has_queued(transport);
    return (reading ? io::readable : 0U) | (writing ? io::writable : 0U);
}

void drop_queue(DatagramTransportObject* transport) noexcept {
    if (transport->queue != nullptr) {
        // Moved out first: dropping an object may run code that calls this again.
        std::deque<UnsentDatagram> unsent;
        unsent.swap(*transport->queue);
        transport->queued_size = 0;
    }
}

template void update_interest(DatagramTransportObject* transport) noexcept;
template void fail_with_raised(DatagramTransportObject* transport, const char* message) noexcept;
template void fail_with_errno(DatagramTransportObject* transport, int error,
                              const char* message) noexcept;
template void force_close(DatagramTransportObject* transport, PyObject* reason) noexcept;

void lose_connection(DatagramTransportObject* transport) noexcept {
    LoopObject* loop = transport->loop;
    if (loop == nullptr) {
        return;
    }
    const Ref alive = Ref::borrow(as_object(transport));
    const Ref loop_alive = Ref::borrow(as_object(loop));
    transport->lost += transport->lost == 0 ? 1 : 0;
    if (loop->io != nullptr) {
        loop->io->poller().remove(transport->watch);
    }
    const Ref reason = Ref::borrow(transport->lost_reason);
    notify_protocol(transport, loop->state->name_connection_lost, reason ? reason.get() : Py_None,
                    "Exception in callback protocol.connection_lost()");
    close_socket(transport);
    if (transport->loop == nullptr) {
        return; // lost already, by a loop that the program ran meanwhile
    }
    unlink_from_loop(loop->datagram_transports, transport);
    // The loop first: without a loop nothing is called or set.
    const Ref last_of_loop(as_object(std::exchange(transport->loop, nullptr)));
    Py_CLEAR(transport->protocol);
    Py_CLEAR(transport->context);
    Py_CLEAR(transport->lost_reason);
    Py_CLEAR(transport->undelivered);
    Py_CLEAR(transport->waiter);
}

DatagramTransportObject* datagram_transport_of(io::Watch& watch) noexcept {
    if (watch.on_ready != &on_datagram_ready) {
        return nullptr;
    }
    return &io::owner_of<&DatagramTransportObject::watch>(watch);
}

void release_datagram_transports(LoopObject* loop) noexcept {
    release_list(loop, loop->datagram_transports);
}

int traverse_datagram_transports(LoopObject* loop, visitproc visit, void* arg) noexcept {
    return traverse_list(loop->datagram_transports, visit, arg);
}

bool add_datagram_transport_type(PyObject* module, ModuleState* state) {
    // asyncio's own class derives from Transport too, and programs check for either.
    const Ref asyncio(PyImport_ImportModule("asyncio"));
    const Ref stream(asyncio ? PyObject_GetAttrString(asyncio.get(), "Transport") : nullptr);
    const Ref base(stream ? PyObject_GetAttrString(asyncio.get(), "DatagramTransport") : nullptr);
    if (!base) {
        return false;
    }
    for (PyObject* type : {stream.get(), base.get()}) {
        if (reinterpret_cast<PyTypeObject*>(type)->tp_basicsize !=
            static_cast<Py_ssize_t>(offsetof(DatagramTransportObject, watch))) {
            PyErr_Format(PyExc_ImportError,
                         "%R of this Python has slots that penstock does not support", type);
            return false;
        }
    }
    const Ref bases(PyTuple_Pack(2, stream.get(), base.get()));
    if (!bases) {
        return false;
    }
    state->datagram_transport_type = reinterpret_cast<PyTypeObject*>(
        PyType_FromModuleAndSpec(module, &transport_spec, bases.get()));
    return state->datagram_transport_type != nullptr &&
           PyModule_AddType(module, state->datagram_transport_type) == 0;
}

} // namespace penstock::python
