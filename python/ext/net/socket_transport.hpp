#pragma once

#include "awaitable/direct_steps.hpp"
#include "core/loop.hpp"
#include "net/transport_life.hpp"
#include "net/water_marks.hpp"
#include "net/write_queue.hpp"
#include "streams/stream_reader.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <netinet/in.h>
#include <sys/socket.h>

#include <penstock/io/owner_of.hpp>
#include <penstock/io/poller.hpp>

namespace penstock::python {

struct SocketTransportObject;

/// Reads once from a readable socket and hands the data to the protocol.
using ReceivePath = void (*)(SocketTransportObject* transport) noexcept;

/// The callbacks of a protocol that is written in C++ (TLS). The socket transport calls them with
/// its context entered and no Python call in between. The functions handle their own errors.
struct NativeProtocol {
    void (*connection_made)(PyObject* self, SocketTransportObject* transport);
    /// `data` is valid during the call.
    void (*data_received)(PyObject* self, const char* data, std::size_t size);
    /// Returns whether the transport stays open for writing.
    bool (*eof_received)(PyObject* self);
    void (*pause_writing)(PyObject* self);
    void (*resume_writing)(PyObject* self);
    void (*connection_lost)(PyObject* self, PyObject* reason);
};

/// An address of a connection that has ended, for get_extra_info.
struct SavedAddress {
    sockaddr_in6 address;
    socklen_t length;
};

/// The transport of a connected stream socket (TCP or Unix): an asyncio.Transport.
///
/// Ownership. The transport owns the descriptor `fd` until `close_descriptor`, which sets it to -1.
/// It closes the number itself as long as no `socket.socket` object exists for it (accepted
/// connections have none at first). Once `socket` is set (given to the constructor, or made for
/// `get_extra_info('socket')`), that object owns the descriptor, the transport owns the object, and
/// closing goes through its `close()`. Programs see only a `TransportSocket`, which cannot close.
/// `watch` registers the descriptor with the loop's poller and is removed before the descriptor is
/// closed.
///
/// While the transport is open the loop's list holds a reference to it, as a selector's callbacks
/// would. `lose_connection` drops that reference, after `connection_lost` was called. `finalize`
/// (transport_base.hpp) closes the descriptor of a transport that is dropped without a close.
///
/// Promise of every write (socket, TLS, WebSocket): when it returns, the kernel has all bytes that
/// it takes. A program may block, fork, exec or end at once. Rejected: holding the writes of a
/// callback back, to send them with one system call; `writelines` saves that call without the
/// promise's loss.
struct SocketTransportObject {
    PyObject ob_base;
    /// BaseTransport's slot `_extra`: Python's layout. A dictionary of what get_extra_info was
    /// given or has found, or null: most idle connections have none.
    PyObject* extra;
    /// The slots of asyncio's _FlowControlMixin: unused, but part of the layout.
    PyObject* flow_control_slots[4];
    io::Watch watch;
    LoopObject* loop; ///< owned; null after connection_lost
    io::ListHook<SocketTransportObject>
        open_hook;              ///< in the loop's list of open transports of this kind
    PyObject* protocol;         ///< null after connection_lost
    StreamReaderObject* stream; ///< of a native stream's protocol, fed directly; else null
    PyObject* asyncio_reader;   ///< weak reference to the reader of asyncio's own stream; else null
    PyObject* context;          ///< contextvars.Context of its creation
    PyObject* socket;           ///< socket.socket that owns the descriptor, or null
    PyObject* shown_socket;     ///< the TransportSocket that get_extra_info has shown, or null
    PyObject* server;           ///< asyncio.Server that accepted the connection, or null
    PyObject* waiter;           ///< future of create_connection, or null
    PyObject* empty_waiter;     ///< future of a sendfile that waits for the queue to drain, or null
    PyObject* file_sender;      ///< called while the socket takes data, during a sendfile; or null
    PyObject* lost_reason;      ///< exception for connection_lost, or null
    PyObject* attributes;       ///< dictionary of the attributes that the program has set, or null
    PyObject* weak_references;
    WriteQueue* queue;            ///< made by the first write that cannot be sent whole
    const NativeProtocol* native; ///< of a native `protocol`, else null
    ReceivePath receive;          ///< how data reaches the protocol; chosen by `bind_protocol`
    WaterMarks water_marks;
    std::size_t read_hint;     ///< for the next read; see `ReceivedBytes`
    int fd;                    ///< -1 once closed
    sockaddr_in6 peer_address; ///< from accept(2); large enough for IPv4 and IPv6
    socklen_t peer_address_length;
    SavedAddress* local_address; ///< made when the descriptor is closed; PyMem_Free
    unsigned lost;      ///< 0; 1 once connection_lost is due; later writes are counted on top
    sa_family_t family; ///< also fills the gap before the flags
    bool closing;
    bool started; ///< connection_made was called and reading may begin
    bool paused;
    bool eof_seen; ///< the peer has ended its side; the protocol keeps the transport open
    bool eof_sent; ///< write_eof was called
    bool protocol_paused;
    bool listed;
    DirectSteps direct_steps; ///< of the task that reads its stream
};

/// Saves an address for get_extra_info(`name`) after the connection has ended. Stores it in
/// `place`, or in the transport's dictionary if it is too long for that (a Unix socket's path).
/// False with an exception set.
bool save_address(SocketTransportObject* transport, PyObject* name, const sockaddr_storage& address,
                  socklen_t length, sockaddr_in6& place, socklen_t& place_length) noexcept;

/// A connection that accept4(2) has returned.
struct AcceptedConnection {
    int fd;
    const sockaddr_storage& peer;
    socklen_t peer_length;
};

/// Makes a transport for an accepted connection, whose protocol is called in `context`. Takes over
/// the descriptor, and closes it on failure. Null with an exception set.
SocketTransportObject* accept_transport(LoopObject* loop, const AcceptedConnection& connection,
                                        PyObject* protocol, PyObject* server,
                                        PyObject* context) noexcept;

/// Calls connection_made and starts reading.
void start_transport(SocketTransportObject* transport) noexcept;

// Shared by socket_transport.cpp (the Python type), socket_connection.cpp (making, starting,
// closing), socket_receiving.cpp and socket_sending.cpp.

/// Makes a transport without a descriptor or a protocol. Null with an exception set.
SocketTransportObject* allocate_transport(LoopObject* loop) noexcept;

/// Sets the protocol, and with it the receive path. Does nothing if the connection is lost
/// meanwhile. False with an exception set.
bool bind_protocol(SocketTransportObject* transport, PyObject* protocol) noexcept;

/// Binds the protocol, attaches the server and enters the loop's list: the steps that connecting
/// and accepting share. False with an exception set.
bool open_transport(SocketTransportObject* transport, PyObject* protocol,
                    PyObject* server) noexcept;

/// Calls `start_transport` in the next iteration. False with an exception set.
bool schedule_start(SocketTransportObject* transport) noexcept;

/// Closes the descriptor, through `socket` where there is one. Saves the local address first.
void close_descriptor(SocketTransportObject* transport) noexcept;

void detach_from_server(SocketTransportObject* transport) noexcept;

/// Enters a transport's context (null: none) for a call of its protocol. Leaves the context with
/// the exception that the call raised still set. Owns the context: the call may lose the
/// connection, and the transport then drops it.
class ProtocolContext {
public:
    explicit ProtocolContext(PyObject* context) noexcept;
    ~ProtocolContext();
    ProtocolContext(const ProtocolContext&) = delete;
    ProtocolContext& operator=(const ProtocolContext&) = delete;

private:
    Ref context_;
};

/// Whether a protocol takes its data through get_buffer and buffer_updated
/// (asyncio.BufferedProtocol). -1 with an exception set.
int is_buffered(const ModuleState* state, PyObject* protocol) noexcept;

/// Calls a method of a protocol with one argument. The method is looked up each time: programs
/// replace methods of connected protocols.
inline Ref call_method(PyObject* protocol, PyObject* name, PyObject* argument) noexcept {
    const Ref alive = Ref::borrow(protocol);
    PyObject* stack[3] = {nullptr, protocol, argument};
    return Ref(
        PyObject_VectorcallMethod(name, stack + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

/// Calls a method of the protocol with the transport's context entered.
Ref call_protocol(SocketTransportObject* transport, PyObject* method,
                  PyObject* argument = nullptr) noexcept;

/// The receive function for a transport whose protocol has just been set.
ReceivePath receive_path_for(const SocketTransportObject* transport, bool buffered) noexcept;

/// Sends as much as the kernel takes now and queues a copy of the rest. Ignored once the connection
/// is lost.
void send_copy(SocketTransportObject* transport, const char* data, std::size_t size) noexcept;

/// Closes after the queue has been sent. False with an exception set when the loop is closed.
bool close_gracefully(SocketTransportObject* transport) noexcept;

/// Calls connection_lost, closes the descriptor, and removes the transport from the loop's list.
void lose_connection(SocketTransportObject* transport) noexcept;

/// Sends from the queue, or from the file of a sendfile: the socket is writable.
void send_ready(SocketTransportObject* transport) noexcept;

// Hooks of transport_life.hpp, beside `lose_connection`.

std::uint32_t wanted_interest(const SocketTransportObject* transport) noexcept;
void drop_queue(SocketTransportObject* transport) noexcept;

extern template void update_interest(SocketTransportObject* transport) noexcept;
extern template void fail_with_raised(SocketTransportObject* transport,
                                      const char* message) noexcept;
extern template void fail_with_errno(SocketTransportObject* transport, int error,
                                     const char* message) noexcept;
extern template void force_close(SocketTransportObject* transport, PyObject* reason) noexcept;

[[nodiscard]] inline bool would_block(int error) noexcept {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

void on_socket_ready(io::Watch& watch, std::uint32_t events);

PyObject* transport_write(PyObject* self, PyObject* data);
PyObject* transport_writelines(PyObject* self, PyObject* list_of_data);
PyObject* transport_write_eof(PyObject* self, PyObject* unused);
PyObject* transport_set_write_buffer_limits(PyObject* self, PyObject* arguments,
                                            PyObject* keywords);

inline SocketTransportObject* transport_of(PyObject* object) noexcept {
    return reinterpret_cast<SocketTransportObject*>(object);
}

/// The default high-water mark of a socket's write queue, in bytes.
constexpr std::size_t default_high_water = std::size_t{64} * 1024;

[[nodiscard]] inline std::size_t queued(const SocketTransportObject* transport) noexcept {
    return transport->queue != nullptr ? transport->queue->size() : 0;
}

/// Raises RuntimeError when an open transport owns the descriptor of `file_object`.
bool check_no_transport(LoopObject* loop, PyObject* file_object) noexcept;

/// The same for a descriptor that is already looked up.
bool check_no_transport(LoopObject* loop, PyObject* file_object, int fd) noexcept;

/// Drops all open transports: the loop is closed.
void release_transports(LoopObject* loop) noexcept;

int traverse_transports(LoopObject* loop, visitproc visit, void* arg) noexcept;

} // namespace penstock::python
