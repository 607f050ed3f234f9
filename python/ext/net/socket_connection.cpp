// Making, starting, failing and closing a socket transport.

#include "net/socket_transport.hpp"

#include "core/fd_callbacks.hpp"
#include "core/memory_reserve.hpp"
#include "net/address.hpp"
#include "net/datagram_transport.hpp"
#include "net/transport_base.hpp"
#include "streams/asyncio_stream_feed.hpp"
#include "streams/stream_protocol.hpp"
#include "tls/tls_transport.hpp"

#include <cerrno>
#include <cstring>
#include <new>

#include <unistd.h>

namespace penstock::python {

namespace {

bool notify_server(SocketTransportObject* transport, PyObject* method) noexcept {
    const bool takes_transport = state_of(Py_TYPE(transport))->server_takes_transport;
    return static_cast<bool>(Ref(
        takes_transport ? PyObject_CallMethodOneArg(transport->server, method, as_object(transport))
                        : PyObject_CallMethodNoArgs(transport->server, method)));
}

/// Saves the local address before the descriptor is closed, for get_extra_info().
void save_local_address(SocketTransportObject* transport) noexcept {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (::getsockname(transport->fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
        return;
    }
    SavedAddress saved{};
    if (!save_address(transport, state_of(Py_TYPE(transport))->name_sockname, address, length,
                      saved.address, saved.length)) {
        PyErr_WriteUnraisable(as_object(transport));
    }
    if (saved.length > 0 && transport->local_address == nullptr) {
        void* memory = PyMem_Malloc(sizeof saved);
        transport->local_address = memory != nullptr ? new (memory) SavedAddress(saved) : nullptr;
    }
}

/// Ends a sendfile of a lost connection, which waits for the write queue or for the socket.
void end_sendfile(SocketTransportObject* transport, LoopObject* loop) noexcept {
    const Ref waiter = Ref::borrow(transport->empty_waiter);
    PyObject* argument = waiter.get();
    if (waiter && !upcall(loop->state, "fail_empty_waiter", &argument, 1)) {
        PyErr_WriteUnraisable(as_object(transport));
    }
    const Ref sender(std::exchange(transport->file_sender, nullptr));
    if (sender && !Ref(PyObject_CallMethod(sender.get(), "lose", nullptr))) {
        PyErr_WriteUnraisable(as_object(transport));
    }
}

void start_step(LoopObject* /*loop*/, PyObject* target) {
    start_transport(transport_of(target));
}

} // namespace

bool save_address(SocketTransportObject* transport, PyObject* name, const sockaddr_storage& address,
                  socklen_t length, sockaddr_in6& place, socklen_t& place_length) noexcept {
    if (length <= sizeof place) {
        std::memcpy(&place, &address, length);
        place_length = length;
        return true;
    }
    if (transport->extra == nullptr) {
        transport->extra = PyDict_New();
    }
    const Ref shown(address_to_python(reinterpret_cast<const sockaddr*>(&address), length));
    return shown && transport->extra != nullptr &&
           PyDict_SetDefault(transport->extra, name, shown.get()) != nullptr;
}

SocketTransportObject* allocate_transport(LoopObject* loop) noexcept {
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

bool bind_protocol(SocketTransportObject* transport, PyObject* protocol) noexcept {
    ModuleState* state = state_of(Py_TYPE(transport));
    const bool tls = Py_TYPE(protocol) == state->tls_transport_type;
    const int buffered = tls ? 0 : is_buffered(state, protocol);
    if (buffered < 0) {
        return false;
    }
    Ref stream = Ref::borrow(tls ? nullptr : as_object(reader_to_feed(state, protocol)));
    Ref asyncio_reader(tls ? nullptr : asyncio_reader_of(state, protocol));
    if (transport->loop == nullptr) {
        return true; // a call above has lost the connection
    }
    // All fields change together. The previous objects are dropped last: their finalizers may call
    // this again.
    const Ref previous_protocol(std::exchange(transport->protocol, Py_NewRef(protocol)));
    const Ref previous_stream(as_object(
        std::exchange(transport->stream, reinterpret_cast<StreamReaderObject*>(stream.release()))));
    const Ref previous_reader(std::exchange(transport->asyncio_reader, asyncio_reader.release()));
    transport->native = tls ? &tls_protocol : nullptr;
    transport->receive = receive_path_for(transport, buffered != 0);
    return true;
}

bool open_transport(SocketTransportObject* transport, PyObject* protocol,
                    PyObject* server) noexcept {
    if (transport->context == nullptr) {
        transport->context = PyContext_CopyCurrent();
    }
    if (transport->context == nullptr || !bind_protocol(transport, protocol)) {
        return false;
    }
    if (server != nullptr && server != Py_None) {
        transport->server = Py_NewRef(server);
        if (!notify_server(transport, transport->loop->state->name_attach)) {
            Py_CLEAR(transport->server);
            return false;
        }
    }
    link_to_loop(transport->loop->transports, transport);
    return true;
}

void close_descriptor(SocketTransportObject* transport) noexcept {
    if (transport->fd < 0) {
        return;
    }
    save_local_address(transport);
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
    if (!notify_server(transport, state_of(Py_TYPE(transport))->name_detach)) {
        PyErr_WriteUnraisable(as_object(transport));
    }
    Py_CLEAR(transport->server);
}

bool schedule_start(SocketTransportObject* transport) noexcept {
    return schedule_native(transport->loop, &start_step, as_object(transport));
}

ProtocolContext::ProtocolContext(PyObject* context) noexcept : context_(Ref::borrow(context)) {
    if (context_ && PyContext_Enter(context_.get()) != 0) {
        // Only happens when the context is entered already, which its owner never does.
        PyErr_Clear();
        context_ = Ref();
    }
}

ProtocolContext::~ProtocolContext() {
    if (!context_) {
        return;
    }
    if (PyErr_Occurred() == nullptr) {
        PyContext_Exit(context_.get());
        return;
    }
    Ref exception = take_exception();
    PyContext_Exit(context_.get());
    raise_exception(std::move(exception));
}

int is_buffered(const ModuleState* state, PyObject* protocol) noexcept {
    return PyObject_IsInstance(protocol, state->buffered_protocol_type);
}

Ref call_protocol(SocketTransportObject* transport, PyObject* method, PyObject* argument) noexcept {
    const ProtocolContext context(transport->context);
    const Ref protocol = Ref::borrow(transport->protocol);
    return Ref(argument != nullptr ? PyObject_CallMethodOneArg(protocol.get(), method, argument)
                                   : PyObject_CallMethodNoArgs(protocol.get(), method));
}

std::uint32_t wanted_interest(const SocketTransportObject* transport) noexcept {
    const bool reading =
        transport->started && !transport->closing && !transport->paused && !transport->eof_seen;
    const bool writing =
        transport->lost == 0 && (queued(transport) > 0 || transport->file_sender != nullptr);
    return (reading ? io::readable : 0U) | (writing ? io::writable : 0U);
}

void drop_queue(SocketTransportObject* transport) noexcept {
    if (transport->queue != nullptr) {
        transport->queue->clear();
    }
}

template void update_interest(SocketTransportObject* transport) noexcept;
template void fail_with_raised(SocketTransportObject* transport, const char* message) noexcept;
template void fail_with_errno(SocketTransportObject* transport, int error,
                              const char* message) noexcept;
template void force_close(SocketTransportObject* transport, PyObject* reason) noexcept;

bool close_gracefully(SocketTransportObject* transport) noexcept {
    if (transport->closing || transport->loop == nullptr) {
        return true;
    }
    if (queued(transport) > 0) {
        transport->closing = true;
        update_interest(transport);
        return true;
    }
    if (!check_open(transport->loop)) {
        return false;
    }
    transport->closing = true;
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
    const Ref loop_alive = Ref::borrow(as_object(loop));
    transport->lost += transport->lost == 0 ? 1 : 0;
    if (loop->io != nullptr) {
        loop->io->poller().remove(transport->watch);
    }
    const Ref kept_reason = Ref::borrow(transport->lost_reason);
    PyObject* reason = kept_reason ? kept_reason.get() : Py_None;
    if (transport->native != nullptr) {
        const ProtocolContext context(transport->context);
        const Ref protocol = Ref::borrow(transport->protocol);
        transport->native->connection_lost(protocol.get(), reason);
    } else if (!call_protocol(transport, loop->state->name_connection_lost, reason)) {
        report_raised(loop, "Exception in callback protocol.connection_lost()",
                      as_object(transport), transport->protocol);
    }
    close_descriptor(transport);
    end_sendfile(transport, loop);
    if (transport->loop == nullptr) {
        return; // already lost, by a loop that the program ran meanwhile
    }
    unlink_from_loop(loop->transports, transport);
    // The loop first: without a loop nothing is called or set.
    const Ref last_of_loop(as_object(std::exchange(transport->loop, nullptr)));
    transport->native = nullptr;
    Py_CLEAR(transport->protocol);
    Py_CLEAR(transport->stream);
    Py_CLEAR(transport->asyncio_reader);
    Py_CLEAR(transport->context);
    Py_CLEAR(transport->lost_reason);
    Py_CLEAR(transport->waiter);
    detach_from_server(transport);
    if (loop->io != nullptr) {
        refill_reserve(loop); // the objects dropped above may have been the missing memory
    }
}

void start_transport(SocketTransportObject* transport) noexcept {
    LoopObject* loop = transport->loop;
    if (loop == nullptr || transport->protocol == nullptr) {
        return;
    }
    const Ref alive = Ref::borrow(as_object(transport));
    const Ref loop_alive = Ref::borrow(as_object(loop));
    const ModuleState* state = loop->state;
    if (transport->native != nullptr) {
        const ProtocolContext context(transport->context);
        const Ref protocol = Ref::borrow(transport->protocol);
        transport->native->connection_made(protocol.get(), transport);
    } else if (!call_protocol(transport, state->name_connection_made, as_object(transport))) {
        report_raised(loop, "Exception in callback protocol.connection_made()",
                      as_object(transport), transport->protocol);
    }
    transport->started = true;
    update_interest(transport);
    finish_waiter(loop, Ref(std::exchange(transport->waiter, nullptr)), as_object(transport));
}

SocketTransportObject* accept_transport(LoopObject* loop, const AcceptedConnection& connection,
                                        PyObject* protocol, PyObject* server,
                                        PyObject* context) noexcept {
    SocketTransportObject* transport = allocate_transport(loop);
    if (transport == nullptr) {
        ::close(connection.fd);
        return nullptr;
    }
    transport->context = Py_NewRef(context);
    transport->family = connection.peer.ss_family;
    if (!save_address(transport, loop->state->name_peername, connection.peer,
                      connection.peer_length, transport->peer_address,
                      transport->peer_address_length) ||
        !open_transport(transport, protocol, server)) {
        ::close(connection.fd);
        Py_DECREF(transport);
        return nullptr;
    }
    transport->fd = connection.fd;
    return transport;
}

bool check_no_transport(LoopObject* loop, PyObject* file_object) noexcept {
    const int fd = descriptor_of(loop, file_object);
    if (fd < 0 && PyErr_ExceptionMatches(PyExc_OverflowError) != 0) {
        PyErr_Clear(); // no transport has such a number
        return check_open(loop);
    }
    // Checked after fileno(), which may have closed the loop.
    return fd >= 0 && check_open(loop) && check_no_transport(loop, file_object, fd);
}

bool check_no_transport(LoopObject* loop, PyObject* file_object, int fd) noexcept {
    io::Watch* watch = loop->io->poller().watch_of(fd);
    const PyObject* owner = nullptr;
    if (watch != nullptr && watch->on_ready == &on_socket_ready) {
        const auto& transport = io::owner_of<&SocketTransportObject::watch>(*watch);
        owner = transport.closing ? nullptr : &transport.ob_base;
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
    release_list(loop, loop->transports);
}

int traverse_transports(LoopObject* loop, visitproc visit, void* arg) noexcept {
    return traverse_list(loop->transports, visit, arg);
}

} // namespace penstock::python
