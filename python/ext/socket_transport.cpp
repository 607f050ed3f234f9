// The socket transport as an object: its attributes, its life, its place in the loop.

#include "socket_transport.hpp"

#include "address.hpp"
#include "asyncio_reader.hpp"
#include "datagram_transport.hpp"
#include "fd_callbacks.hpp"
#include "stream_protocol.hpp"
#include "tls_transport.hpp"

#include <cassert>
#include <cerrno>
#include <cstring>
#include <new>

#include <netinet/tcp.h>
#include <structmember.h>
#include <unistd.h>

namespace penstock::python {

namespace {

void link_to_loop(SocketTransportObject* transport) noexcept {
    LoopObject* loop = transport->loop;
    transport->previous = nullptr;
    transport->next = loop->transports;
    if (loop->transports != nullptr) {
        loop->transports->previous = transport;
    }
    loop->transports = transport;
    transport->listed = true;
    Py_INCREF(transport);
}

/// Gives back the loop's reference: the caller must hold one of its own.
void unlink_from_loop(SocketTransportObject* transport) noexcept {
    if (!transport->listed) {
        return;
    }
    if (transport->previous != nullptr) {
        transport->previous->next = transport->next;
    } else {
        transport->loop->transports = transport->next;
    }
    if (transport->next != nullptr) {
        transport->next->previous = transport->previous;
    }
    transport->listed = false;
    Py_DECREF(transport);
}

bool set_protocol(SocketTransportObject* transport, PyObject* protocol) noexcept {
    const ModuleState* state = transport->loop->state;
    if (Py_TYPE(protocol) == state->tls_transport_type) {
        Py_XSETREF(transport->protocol, Py_NewRef(protocol));
        Py_CLEAR(transport->data_received);
        Py_CLEAR(transport->buffer_updated);
        Py_CLEAR(transport->stream);
        Py_CLEAR(transport->asyncio_reader);
        transport->buffered_protocol = false;
        transport->native = &tls_protocol;
        return true;
    }
    ReceiverMethods methods;
    if (!find_receiver(state, protocol, methods)) {
        return false;
    }
    Py_XSETREF(transport->protocol, Py_NewRef(protocol));
    transport->buffered_protocol = static_cast<bool>(methods.buffer_updated);
    Py_XSETREF(transport->data_received, methods.receiver.release());
    Py_XSETREF(transport->buffer_updated, methods.buffer_updated.release());
    transport->native = nullptr;
    StreamReaderObject* stream = reader_to_feed(state, protocol);
    Py_XINCREF(stream);
    Py_XSETREF(transport->stream, stream);
    Py_XSETREF(transport->asyncio_reader, asyncio_reader_of(state, protocol));
    return true;
}

bool tell_server(SocketTransportObject* transport, PyObject* method) noexcept {
    const bool takes_transport = state_of(Py_TYPE(transport))->server_takes_transport;
    return static_cast<bool>(Ref(
        takes_transport ? PyObject_CallMethodOneArg(transport->server, method, as_object(transport))
                        : PyObject_CallMethodNoArgs(transport->server, method)));
}

SocketTransportObject* allocate(LoopObject* loop) noexcept {
    PyTypeObject* type = loop->state->socket_transport_type;
    auto* transport = reinterpret_cast<SocketTransportObject*>(type->tp_alloc(type, 0));
    if (transport == nullptr) {
        return nullptr;
    }
    new (&transport->watch) io::Watch(&on_socket_ready);
    transport->loop = reinterpret_cast<LoopObject*>(Py_NewRef(as_object(loop)));
    transport->fd = -1;
    transport->water_marks = WaterMarks::below(default_high_water);
    return transport;
}

/// The part that both ways of making a transport share; `fd` and `extra` are set already.
bool open(SocketTransportObject* transport, PyObject* protocol, PyObject* server) noexcept {
    if (transport->extra == nullptr) {
        transport->extra = PyDict_New();
    }
    transport->context = PyContext_CopyCurrent();
    if (transport->extra == nullptr || transport->context == nullptr ||
        !set_protocol(transport, protocol)) {
        return false;
    }
    if (server != nullptr && server != Py_None) {
        transport->server = Py_NewRef(server);
        if (!tell_server(transport, transport->loop->state->name_attach)) {
            Py_CLEAR(transport->server);
            return false;
        }
    }
    link_to_loop(transport);
    return true;
}

/// A socket object that owns the descriptor, for `get_extra_info('socket')`.
bool make_socket(SocketTransportObject* transport) noexcept {
    if (transport->socket != nullptr || transport->fd < 0) {
        return true;
    }
    const Ref fd(PyLong_FromLong(transport->fd));
    const Ref family(PyLong_FromLong(transport->family));
    PyObject* arguments[] = {fd.get(), family.get()};
    Ref socket = fd && family
                     ? call_rare_path(state_of(Py_TYPE(transport)), "socket_for", arguments, 2)
                     : Ref();
    transport->socket = socket.release();
    return transport->socket != nullptr;
}

/// Saves the local address before the descriptor goes: it stays known after the close.
void keep_local_address(SocketTransportObject* transport) noexcept {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (::getsockname(transport->fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
        return;
    }
    if (length <= sizeof transport->local_address) {
        std::memcpy(&transport->local_address, &address, length);
        transport->local_address_length = length;
    }
}

void close_descriptor(SocketTransportObject* transport) noexcept {
    if (transport->fd < 0) {
        return;
    }
    keep_local_address(transport);
    const int fd = std::exchange(transport->fd, -1);
    if (transport->socket == nullptr) {
        ::close(fd);
        return;
    }
    if (!Ref(PyObject_CallMethod(transport->socket, "close", nullptr))) {
        PyErr_WriteUnraisable(as_object(transport));
    }
}

void detach_from_server(SocketTransportObject* transport) noexcept {
    if (transport->server == nullptr) {
        return;
    }
    if (!tell_server(transport, state_of(Py_TYPE(transport))->name_detach)) {
        PyErr_WriteUnraisable(as_object(transport));
    }
    Py_CLEAR(transport->server);
}

void lose_connection_step(LoopObject* /*loop*/, PyObject* target) {
    lose_connection(transport_of(target));
}

void start_step(LoopObject* /*loop*/, PyObject* target) {
    start_transport(transport_of(target));
}

bool schedule_loss(SocketTransportObject* transport) noexcept {
    return schedule_native(transport->loop, &lose_connection_step, as_object(transport));
}

// ---- Python's view ------------------------------------------------------------------------------

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
    if (!check_open(loop) || !check_no_transport(loop, socket)) {
        return nullptr;
    }
    const int fd = PyObject_AsFileDescriptor(socket);
    const Ref family(PyObject_GetAttrString(socket, "family"));
    if (fd < 0 || !family) {
        return nullptr;
    }
    SocketTransportObject* transport = allocate(loop);
    const Ref owner(as_object(transport));
    if (!owner) {
        return nullptr;
    }
    transport->family = static_cast<int>(PyLong_AsLong(family.get()));
    transport->extra = extra != Py_None ? PyDict_Copy(extra) : PyDict_New();
    if (PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    if (transport->family == AF_INET || transport->family == AF_INET6) {
        const int on = 1;
        ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    if (!open(transport, protocol, server)) {
        return nullptr;
    }
    transport->socket = Py_NewRef(socket);
    transport->fd = fd;
    if (waiter != Py_None) {
        transport->waiter = Py_NewRef(waiter);
    }
    if (!schedule_native(loop, &start_step, as_object(transport))) {
        return nullptr;
    }
    return Py_NewRef(owner.get());
}

PyObject* transport_close(PyObject* self, PyObject* /*unused*/) {
    return close_gracefully(transport_of(self)) ? Py_NewRef(Py_None) : nullptr;
}

PyObject* transport_abort(PyObject* self, PyObject* /*unused*/) {
    force_close(transport_of(self), nullptr);
    return PyErr_Occurred() == nullptr ? Py_NewRef(Py_None) : nullptr;
}

PyObject* transport_force_close(PyObject* self, PyObject* reason) {
    force_close(transport_of(self), reason == Py_None ? nullptr : reason);
    return PyErr_Occurred() == nullptr ? Py_NewRef(Py_None) : nullptr;
}

PyObject* transport_is_closing(PyObject* self, PyObject* /*unused*/) {
    return PyBool_FromLong(transport_of(self)->closing);
}

PyObject* transport_is_reading(PyObject* self, PyObject* /*unused*/) {
    const SocketTransportObject* transport = transport_of(self);
    return PyBool_FromLong(!transport->closing && !transport->paused);
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

PyObject* transport_get_write_buffer_limits(PyObject* self, PyObject* /*unused*/) {
    return transport_of(self)->water_marks.as_tuple();
}

PyObject* transport_get_protocol(PyObject* self, PyObject* /*unused*/) {
    PyObject* protocol = transport_of(self)->protocol;
    return Py_NewRef(protocol != nullptr ? protocol : Py_None);
}

PyObject* transport_set_protocol(PyObject* self, PyObject* protocol) {
    SocketTransportObject* transport = transport_of(self);
    if (transport->loop == nullptr) {
        Py_RETURN_NONE; // the connection is lost: nothing will be called any more
    }
    return set_protocol(transport, protocol) ? Py_NewRef(Py_None) : nullptr;
}

PyObject* address_or_none(const sockaddr_in6& address, socklen_t length) noexcept {
    return length > 0 ? address_to_python(reinterpret_cast<const sockaddr*>(&address), length)
                      : Py_NewRef(Py_None);
}

using AddressCall = int (*)(int, sockaddr*, socklen_t*);

PyObject* ask_address(const SocketTransportObject* transport, AddressCall call) noexcept {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (transport->fd < 0 || call(transport->fd, generic, &length) != 0) {
        Py_RETURN_NONE;
    }
    return address_to_python(generic, length);
}

/// The values that asyncio computes for every connection and that most never ask for.
Ref compute_extra(SocketTransportObject* transport, PyObject* name) noexcept {
    if (PyUnicode_CompareWithASCIIString(name, "peername") == 0) {
        return Ref(transport->peer_address_length > 0
                       ? address_or_none(transport->peer_address, transport->peer_address_length)
                       : ask_address(transport, &::getpeername));
    }
    if (PyUnicode_CompareWithASCIIString(name, "sockname") == 0) {
        return Ref(transport->fd < 0
                       ? address_or_none(transport->local_address, transport->local_address_length)
                       : ask_address(transport, &::getsockname));
    }
    if (PyUnicode_CompareWithASCIIString(name, "socket") == 0) {
        if (!make_socket(transport)) {
            return Ref();
        }
        PyObject* arguments[] = {transport->socket != nullptr ? transport->socket : Py_None};
        return call_rare_path(state_of(Py_TYPE(transport)), "transport_socket", arguments, 1);
    }
    return Ref();
}

PyObject* transport_get_extra_info(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                                   PyObject* keywords) {
    const Py_ssize_t keyword_count = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    if (count < 1 || count + keyword_count > 2) {
        PyErr_SetString(PyExc_TypeError, "get_extra_info() takes a name and a default");
        return nullptr;
    }
    SocketTransportObject* transport = transport_of(self);
    if (PyObject* known = PyDict_GetItemWithError(transport->extra, arguments[0])) {
        return Py_NewRef(known);
    }
    if (PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    if (PyUnicode_Check(arguments[0])) {
        Ref value = compute_extra(transport, arguments[0]);
        if (value) {
            return PyDict_SetItem(transport->extra, arguments[0], value.get()) == 0
                       ? value.release()
                       : nullptr;
        }
        if (PyErr_Occurred() != nullptr) {
            return nullptr;
        }
    }
    return Py_NewRef(count + keyword_count == 2 ? arguments[1] : Py_None);
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
    if (queued(transport) == 0 &&
        !Ref(PyObject_CallMethodOneArg(waiter.get(), transport->loop->state->name_set_result,
                                       Py_None))) {
        return nullptr;
    }
    transport->empty_waiter = Py_NewRef(waiter.get());
    return waiter.release();
}

PyObject* transport_reset_empty_waiter(PyObject* self, PyObject* /*unused*/) {
    Py_CLEAR(transport_of(self)->empty_waiter);
    Py_RETURN_NONE;
}

/// Lets someone else watch the descriptor (sendfile), until reading is resumed or a write waits.
PyObject* transport_release_watch(PyObject* self, PyObject* /*unused*/) {
    SocketTransportObject* transport = transport_of(self);
    if (transport->loop != nullptr && transport->loop->io != nullptr) {
        transport->loop->io->poller().remove(transport->watch);
    }
    Py_RETURN_NONE;
}

PyObject* transport_repr(PyObject* self) {
    const SocketTransportObject* transport = transport_of(self);
    const char* state = transport->fd < 0 ? " closed" : transport->closing ? " closing" : "";
    const std::uint32_t interest = transport->watch.interest;
    return PyUnicode_FromFormat("<SocketTransport%s fd=%d read=%s write=<%s, bufsize=%zu>>", state,
                                transport->fd, (interest & io::readable) != 0 ? "polling" : "idle",
                                (interest & io::writable) != 0 ? "polling" : "idle",
                                queued(transport));
}

PyObject* get_protocol_attribute(PyObject* self, void* /*unused*/) {
    return transport_get_protocol(self, nullptr);
}

PyObject* get_loop_attribute(PyObject* self, void* /*unused*/) {
    LoopObject* loop = transport_of(self)->loop;
    return Py_NewRef(loop != nullptr ? as_object(loop) : Py_None);
}

PyObject* get_socket_attribute(PyObject* self, void* /*unused*/) {
    SocketTransportObject* transport = transport_of(self);
    if (transport->fd < 0) {
        Py_RETURN_NONE;
    }
    return make_socket(transport) ? Py_NewRef(transport->socket) : nullptr;
}

PyObject* get_protocol_paused(PyObject* self, void* /*unused*/) {
    return PyBool_FromLong(transport_of(self)->protocol_paused);
}

PyObject* get_true(PyObject* /*self*/, void* /*unused*/) {
    Py_RETURN_TRUE;
}

PyObject* get_sendfile_mode(PyObject* self, void* /*unused*/) {
    return call_rare_path(state_of(Py_TYPE(self)), "sendfile_mode", nullptr, 0).release();
}

int transport_traverse(PyObject* self, visitproc visit, void* arg) {
    SocketTransportObject* transport = transport_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(transport->extra);
    Py_VISIT(transport->loop);
    Py_VISIT(transport->protocol);
    Py_VISIT(transport->data_received);
    Py_VISIT(transport->buffer_updated);
    Py_VISIT(transport->stream);
    Py_VISIT(transport->asyncio_reader);
    Py_VISIT(transport->context);
    Py_VISIT(transport->socket);
    Py_VISIT(transport->server);
    Py_VISIT(transport->waiter);
    Py_VISIT(transport->empty_waiter);
    Py_VISIT(transport->lost_reason);
    return 0;
}

int transport_clear(PyObject* self) {
    SocketTransportObject* transport = transport_of(self);
    transport->native = nullptr;
    Py_CLEAR(transport->extra);
    Py_CLEAR(transport->protocol);
    Py_CLEAR(transport->data_received);
    Py_CLEAR(transport->buffer_updated);
    Py_CLEAR(transport->stream);
    Py_CLEAR(transport->asyncio_reader);
    Py_CLEAR(transport->context);
    Py_CLEAR(transport->server);
    Py_CLEAR(transport->waiter);
    Py_CLEAR(transport->empty_waiter);
    Py_CLEAR(transport->lost_reason);
    return 0;
}

void transport_finalize(PyObject* self) {
    SocketTransportObject* transport = transport_of(self);
    if (transport->fd < 0) {
        return;
    }
    Ref exception = take_exception();
    if (PyErr_ResourceWarning(self, 1, "unclosed transport %R", self) != 0) {
        PyErr_WriteUnraisable(self);
    }
    if (transport->loop != nullptr && transport->loop->io != nullptr) {
        transport->loop->io->poller().remove(transport->watch);
    }
    close_descriptor(transport);
    detach_from_server(transport);
    if (exception) {
        raise_exception(std::move(exception));
    }
}

void transport_dealloc(PyObject* self) {
    if (PyObject_CallFinalizerFromDealloc(self) < 0) {
        return; // somebody kept it
    }
    SocketTransportObject* transport = transport_of(self);
    PyObject_GC_UnTrack(self);
    if (transport->weak_references != nullptr) {
        PyObject_ClearWeakRefs(self);
    }
    transport_clear(self);
    Py_CLEAR(transport->loop);
    Py_CLEAR(transport->socket);
    delete std::exchange(transport->queue, nullptr);
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

template <typename Function> PyCFunction as_function(Function function) noexcept {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}

PyMethodDef transport_methods[] = {
    {"write", &transport_write, METH_O, "Send data; what the kernel does not take now is queued."},
    {"writelines", &transport_writelines, METH_O, "Send several chunks with one system call."},
    {"write_eof", &transport_write_eof, METH_NOARGS, "End the sending side after queued data."},
    {"can_write_eof", &transport_can_write_eof, METH_NOARGS, "True."},
    {"close", &transport_close, METH_NOARGS, "Close after queued data was sent."},
    {"abort", &transport_abort, METH_NOARGS, "Close at once; queued data is dropped."},
    {"_force_close", &transport_force_close, METH_O, nullptr},
    {"is_closing", &transport_is_closing, METH_NOARGS, "Whether it is closing or closed."},
    {"is_reading", &transport_is_reading, METH_NOARGS, "Whether received data is delivered."},
    {"pause_reading", &transport_pause_reading, METH_NOARGS, "Stop delivering received data."},
    {"resume_reading", &transport_resume_reading, METH_NOARGS, "Undo pause_reading()."},
    {"get_write_buffer_size", &transport_get_write_buffer_size, METH_NOARGS,
     "Bytes that wait to be sent."},
    {"get_write_buffer_limits", &transport_get_write_buffer_limits, METH_NOARGS,
     "The water marks (low, high) of flow control."},
    {"set_write_buffer_limits", as_function(&transport_set_write_buffer_limits),
     METH_VARARGS | METH_KEYWORDS, "Set the water marks of flow control, in bytes."},
    {"get_protocol", &transport_get_protocol, METH_NOARGS, "The protocol."},
    {"set_protocol", &transport_set_protocol, METH_O, "Switch to another protocol."},
    {"get_extra_info", as_function(&transport_get_extra_info), METH_FASTCALL | METH_KEYWORDS,
     "socket, sockname, peername, and what create_connection() added."},
    {"_make_empty_waiter", &transport_make_empty_waiter, METH_NOARGS, nullptr},
    {"_reset_empty_waiter", &transport_reset_empty_waiter, METH_NOARGS, nullptr},
    {"_release_watch", &transport_release_watch, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef transport_attributes[] = {
    {"_protocol", &get_protocol_attribute, nullptr, nullptr, nullptr},
    {"_loop", &get_loop_attribute, nullptr, nullptr, nullptr},
    {"_protocol_paused", &get_protocol_paused, nullptr, nullptr, nullptr},
    {"_sock", &get_socket_attribute, nullptr, nullptr, nullptr},
    {"_start_tls_compatible", &get_true, nullptr, nullptr, nullptr},
    {"_sendfile_compatible", &get_sendfile_mode, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef transport_members[] = {
    {"_sock_fd", T_INT, offsetof(SocketTransportObject, fd), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(SocketTransportObject, weak_references), READONLY,
     nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

/// BaseTransport.__init__ would set `_extra` anew: what __new__ has put there must stay.
int keep_init(PyObject* /*self*/, PyObject* /*arguments*/, PyObject* /*keywords*/) {
    return 0;
}

PyType_Slot transport_slots[] = {
    {Py_tp_doc, const_cast<char*>("The transport of a connected TCP or Unix stream socket.")},
    {Py_tp_new, reinterpret_cast<void*>(&transport_new)},
    {Py_tp_init, reinterpret_cast<void*>(&keep_init)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&transport_dealloc)},
    {Py_tp_finalize, reinterpret_cast<void*>(&transport_finalize)},
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

ProtocolContext::ProtocolContext(PyObject* context) noexcept : context_(context) {
    if (PyContext_Enter(context_) != 0) {
        // Only possible when the same context is entered already, which its owner never does.
        PyErr_Clear();
        context_ = nullptr;
    }
}

ProtocolContext::~ProtocolContext() {
    if (context_ == nullptr) {
        return;
    }
    if (PyErr_Occurred() == nullptr) {
        PyContext_Exit(context_);
        return;
    }
    Ref exception = take_exception();
    PyContext_Exit(context_);
    raise_exception(std::move(exception));
}

bool find_receiver(const ModuleState* state, PyObject* protocol,
                   ReceiverMethods& methods) noexcept {
    const int buffered = PyObject_IsInstance(protocol, state->buffered_protocol_type);
    if (buffered < 0) {
        return false;
    }
    if (buffered != 0) {
        methods.receiver = Ref(PyObject_GetAttr(protocol, state->name_get_buffer));
        methods.buffer_updated = Ref(PyObject_GetAttr(protocol, state->name_buffer_updated));
        return methods.receiver && methods.buffer_updated;
    }
    methods.receiver = Ref(PyObject_GetAttr(protocol, state->name_data_received));
    if (!methods.receiver) {
        // A protocol may lack it (one that only writes): then the first read reports that.
        if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) {
            return false;
        }
        PyErr_Clear();
        methods.receiver = Ref(PyMethod_New(as_object(&PyUnicode_Type), protocol));
    }
    return static_cast<bool>(methods.receiver);
}

Ref call_protocol(SocketTransportObject* transport, PyObject* method, PyObject* argument) noexcept {
    const ProtocolContext context(transport->context);
    const Ref protocol = Ref::borrow(transport->protocol);
    return Ref(argument != nullptr ? PyObject_CallMethodOneArg(protocol.get(), method, argument)
                                   : PyObject_CallMethodNoArgs(protocol.get(), method));
}

void update_interest(SocketTransportObject* transport) noexcept {
    if (transport->loop == nullptr || transport->loop->io == nullptr || transport->fd < 0) {
        return;
    }
    const bool reading =
        transport->started && !transport->closing && !transport->paused && !transport->eof_seen;
    const bool writing = transport->lost == 0 && queued(transport) > 0;
    const std::uint32_t interest = (reading ? io::readable : 0U) | (writing ? io::writable : 0U);
    io::Poller& poller = transport->loop->io->poller();
    std::error_code error;
    if (transport->watch.fd >= 0) {
        error = poller.update(transport->watch, interest);
    } else if (interest != 0) {
        error = poller.add(transport->watch, transport->fd, interest);
    }
    if (error) {
        fail_with_errno(transport, error.value(), "Fatal error on transport");
    }
}

void fail_with_raised(SocketTransportObject* transport, const char* message) noexcept {
    if (transport->loop == nullptr) {
        PyErr_WriteUnraisable(as_object(transport));
        return;
    }
    if (exception_ends_program()) {
        interrupt_with_raised(transport->loop);
        return;
    }
    const Ref exception = take_exception();
    if (PyErr_GivenExceptionMatches(exception.get(), PyExc_OSError) == 0) {
        raise_exception(Ref::borrow(exception.get()));
        report_raised(transport->loop, message, as_object(transport), transport->protocol);
    }
    force_close(transport, exception.get());
}

void fail_with_errno(SocketTransportObject* transport, int error, const char* message) noexcept {
    errno = error;
    PyErr_SetFromErrno(PyExc_OSError);
    fail_with_raised(transport, message);
}

void force_close(SocketTransportObject* transport, PyObject* reason) noexcept {
    if (transport->lost > 0 || transport->loop == nullptr) {
        return;
    }
    if (transport->queue != nullptr) {
        transport->queue->clear();
    }
    transport->closing = true;
    transport->lost = 1;
    if (transport->loop->io != nullptr) {
        transport->loop->io->poller().remove(transport->watch);
    }
    Py_XSETREF(transport->lost_reason, Py_XNewRef(reason));
    if (!schedule_loss(transport)) {
        PyErr_WriteUnraisable(as_object(transport));
    }
}

bool close_gracefully(SocketTransportObject* transport) noexcept {
    if (transport->closing || transport->loop == nullptr) {
        return true;
    }
    if (!check_open(transport->loop)) {
        return false;
    }
    transport->closing = true;
    if (queued(transport) > 0) {
        update_interest(transport);
        return true;
    }
    transport->lost = 1;
    transport->loop->io->poller().remove(transport->watch);
    return schedule_loss(transport);
}

void lose_connection(SocketTransportObject* transport) noexcept {
    LoopObject* loop = transport->loop;
    if (loop == nullptr) {
        return;
    }
    const Ref alive = Ref::borrow(as_object(transport));
    transport->lost += transport->lost == 0 ? 1 : 0;
    if (loop->io != nullptr) {
        loop->io->poller().remove(transport->watch);
    }
    PyObject* reason = transport->lost_reason != nullptr ? transport->lost_reason : Py_None;
    if (transport->native != nullptr) {
        const ProtocolContext context(transport->context);
        transport->native->connection_lost(transport->protocol, reason);
    } else if (!call_protocol(transport, loop->state->name_connection_lost, reason)) {
        report_raised(loop, "Exception in callback protocol.connection_lost()",
                      as_object(transport), transport->protocol);
    }
    close_descriptor(transport);
    if (transport->empty_waiter != nullptr &&
        !call_rare_path(loop->state, "fail_empty_waiter", &transport->empty_waiter, 1)) {
        PyErr_WriteUnraisable(as_object(transport));
    }
    unlink_from_loop(transport);
    transport->native = nullptr;
    Py_CLEAR(transport->protocol);
    Py_CLEAR(transport->data_received);
    Py_CLEAR(transport->buffer_updated);
    Py_CLEAR(transport->stream);
    Py_CLEAR(transport->asyncio_reader);
    Py_CLEAR(transport->context);
    Py_CLEAR(transport->lost_reason);
    Py_CLEAR(transport->waiter);
    detach_from_server(transport);
    Py_CLEAR(transport->loop);
}

void start_transport(SocketTransportObject* transport) noexcept {
    LoopObject* loop = transport->loop;
    if (loop == nullptr || transport->protocol == nullptr) {
        return;
    }
    const ModuleState* state = loop->state;
    if (transport->native != nullptr) {
        const ProtocolContext context(transport->context);
        transport->native->connection_made(transport->protocol, transport);
    } else if (!call_protocol(transport, state->name_connection_made, as_object(transport))) {
        report_raised(loop, "Exception in callback protocol.connection_made()",
                      as_object(transport), transport->protocol);
    }
    transport->started = true;
    update_interest(transport);
    const Ref waiter(std::exchange(transport->waiter, nullptr));
    if (!waiter) {
        return;
    }
    const Ref cancelled(PyObject_CallMethodNoArgs(waiter.get(), state->name_cancelled));
    if (!cancelled ||
        (cancelled.get() != Py_True &&
         !Ref(PyObject_CallMethodOneArg(waiter.get(), state->name_set_result, Py_None)))) {
        report_raised(loop, "Fatal error on transport", as_object(transport), nullptr);
    }
}

SocketTransportObject* accept_transport(LoopObject* loop, const AcceptedConnection& connection,
                                        PyObject* protocol, PyObject* server) noexcept {
    SocketTransportObject* transport = allocate(loop);
    if (transport == nullptr) {
        ::close(connection.fd);
        return nullptr;
    }
    transport->family = connection.peer.ss_family;
    if (connection.peer_length <= sizeof transport->peer_address) {
        std::memcpy(&transport->peer_address, &connection.peer, connection.peer_length);
        transport->peer_address_length = connection.peer_length;
    }
    if (!open(transport, protocol, server)) {
        ::close(connection.fd);
        Py_DECREF(transport);
        return nullptr;
    }
    transport->fd = connection.fd;
    return transport;
}

bool check_no_transport(LoopObject* loop, PyObject* file_object) noexcept {
    const int fd = descriptor_of(loop, file_object);
    return fd >= 0 && check_no_transport(loop, file_object, fd);
}

bool check_no_transport(LoopObject* loop, PyObject* file_object, int fd) noexcept {
    const io::Watch* watch = loop->io->poller().owner_of(fd);
    const PyObject* owner = nullptr;
    if (watch != nullptr && watch->on_ready == &on_socket_ready) {
        const auto* transport = reinterpret_cast<const SocketTransportObject*>(
            reinterpret_cast<const char*>(watch) - offsetof(SocketTransportObject, watch));
        owner = transport->closing ? nullptr : &transport->ob_base;
    } else if (watch != nullptr) {
        const DatagramTransportObject* transport = datagram_transport_of(*watch);
        owner = transport == nullptr || transport->closing ? nullptr : &transport->ob_base;
    }
    if (owner != nullptr) {
        PyErr_Format(PyExc_RuntimeError, "File descriptor %R is used by transport %R", file_object,
                     owner);
    }
    return owner == nullptr;
}

void release_transports(LoopObject* loop) noexcept {
    while (SocketTransportObject* transport = loop->transports) {
        if (loop->io != nullptr) {
            loop->io->poller().remove(transport->watch);
        }
        unlink_from_loop(transport);
    }
}

int traverse_transports(LoopObject* loop, visitproc visit, void* arg) noexcept {
    for (SocketTransportObject* transport = loop->transports; transport != nullptr;
         transport = transport->next) {
        Py_VISIT(transport);
    }
    return 0;
}

bool add_socket_transport_type(PyObject* module, ModuleState* state) {
    // asyncio's sendfile fallback insists on this private base, which is a Transport.
    const Ref transports(PyImport_ImportModule("asyncio.transports"));
    const Ref base(transports ? PyObject_GetAttrString(transports.get(), "_FlowControlMixin")
                              : nullptr);
    if (!base) {
        return false;
    }
    const auto* base_type = reinterpret_cast<PyTypeObject*>(base.get());
    if (base_type->tp_basicsize !=
        static_cast<Py_ssize_t>(offsetof(SocketTransportObject, watch))) {
        PyErr_SetString(
            PyExc_ImportError,
            "asyncio's transport base class of this Python has slots that penstock does not know");
        return false;
    }
    const Ref bases(PyTuple_Pack(1, base.get()));
    if (!bases) {
        return false;
    }
    state->socket_transport_type = reinterpret_cast<PyTypeObject*>(
        PyType_FromModuleAndSpec(module, &transport_spec, bases.get()));
    return state->socket_transport_type != nullptr &&
           PyModule_AddType(module, state->socket_transport_type) == 0;
}

} // namespace penstock::python
