#pragma once

#include "loop.hpp"
#include "stream_reader.hpp"
#include "water_marks.hpp"
#include "write_queue.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <netinet/in.h>

#include <penstock/io/poller.hpp>

namespace penstock::python {

struct SocketTransportObject;

/// A protocol that is written in C++ (TLS): what its socket transport tells it, with the transport's
/// context entered and no Python call in between. The functions deal with their own errors.
struct NativeProtocol {
    void (*connection_made)(PyObject* self, SocketTransportObject* transport);
    /// `data` is valid during the call.
    void (*data_received)(PyObject* self, const char* data, std::size_t size);
    /// Whether the transport stays open for writing.
    bool (*eof_received)(PyObject* self);
    void (*pause_writing)(PyObject* self);
    void (*resume_writing)(PyObject* self);
    void (*connection_lost)(PyObject* self, PyObject* reason);
};

/// The transport of a connected stream socket (TCP or Unix): an asyncio.Transport.
///
/// While it is open the loop holds a reference, as a selector's callbacks would; `connection_lost`
/// ends that.
struct SocketTransportObject {
    PyObject ob_base;
    /// BaseTransport's slot `_extra`: its place in memory is Python's.
    PyObject* extra;
    /// The slots of asyncio's _FlowControlMixin: unused, but part of its layout.
    PyObject* flow_control_slots[4];
    io::Watch watch;
    LoopObject* loop;                ///< owned; null after connection_lost
    SocketTransportObject* previous; ///< in the loop's list of open transports
    SocketTransportObject* next;
    PyObject* protocol;         ///< null after connection_lost
    StreamReaderObject* stream; ///< of a native stream's protocol, fed directly; else null
    PyObject* asyncio_reader;   ///< weak reference to the reader of asyncio's own stream; else null
    PyObject* context;          ///< contextvars.Context of its creation
    PyObject* socket;           ///< socket.socket that owns the descriptor, made on demand; or null
    PyObject* server;           ///< asyncio.Server that accepted it, or null
    PyObject* waiter;           ///< future of create_connection, or null
    PyObject* empty_waiter;     ///< future of a sendfile that waits for the queue to drain, or null
    PyObject* lost_reason;      ///< exception for connection_lost, or null
    PyObject* attributes;       ///< what the program has set on the transport; or null
    PyObject* weak_references;
    WriteQueue* queue;            ///< made by the first write that could not be sent whole
    const NativeProtocol* native; ///< of a native `protocol`, else null
    WaterMarks water_marks;
    SocketTransportObject* next_holder; ///< in the loop's list of transports that hold writes
    std::size_t read_hint;              ///< for the next read; see `ReceivedBytes`
    std::uint64_t written_in;           ///< the callback that wrote last; see `CallbackScope`
    int fd;                             ///< -1 once closed
    int family;
    sockaddr_in6 peer_address;  ///< as accept(2) told it; big enough for IPv4 and IPv6
    sockaddr_in6 local_address; ///< kept from before the close
    socklen_t peer_address_length;
    socklen_t local_address_length;
    unsigned bursts; ///< callbacks in a row that wrote several times each, but for the last one
    unsigned lost;   ///< 0, then 1 when connection_lost is due, then counts the writes after it
    bool closing;
    bool started; ///< connection_made was called and reading may begin
    bool paused;
    bool eof_seen; ///< the peer has ended its side and the protocol keeps the transport open
    bool eof_sent; ///< write_eof was called
    bool protocol_paused;
    bool buffered_protocol;
    bool listed;
    bool several_writes; ///< the callback that wrote last has done so more than once
    bool holding;        ///< the queue waits for the callback's end, not for the socket
    bool listed_as_holder;
};

/// Keeps what get_extra_info(`name`) tells of an address also when the connection has ended: in `place`,
/// or where it is too long for that (a Unix socket's path) in the transport's dictionary. False with an
/// exception set.
bool keep_address(SocketTransportObject* transport, PyObject* name, const sockaddr_storage& address,
                  socklen_t length, sockaddr_in6& place, socklen_t& place_length) noexcept;

/// A connection that accept4(2) has just returned.
struct AcceptedConnection {
    int fd;
    const sockaddr_storage& peer;
    socklen_t peer_length;
};

/// A transport for an accepted connection, whose protocol is called in `context`. Takes over the
/// descriptor, which is closed on failure. Null with an exception set.
SocketTransportObject* accept_transport(LoopObject* loop, const AcceptedConnection& connection,
                                        PyObject* protocol, PyObject* server,
                                        PyObject* context) noexcept;

/// Calls connection_made and begins to read.
void start_transport(SocketTransportObject* transport) noexcept;

// Between socket_transport.cpp (the Python object), socket_connection.cpp (its life),
// socket_receiving.cpp and socket_sending.cpp (its bytes):

/// A transport with no descriptor and no protocol yet. Null with an exception set.
SocketTransportObject* allocate_transport(LoopObject* loop) noexcept;

/// Makes a protocol the one that is called, if any still is. False with an exception set.
bool bind_protocol(SocketTransportObject* transport, PyObject* protocol) noexcept;

/// The part that both ways of making a transport share; `fd` and `extra` are set already. False with
/// an exception set.
bool open_transport(SocketTransportObject* transport, PyObject* protocol,
                    PyObject* server) noexcept;

/// Calls `start_transport` in the next iteration. False with an exception set.
bool schedule_start(SocketTransportObject* transport) noexcept;

void close_descriptor(SocketTransportObject* transport) noexcept;

void detach_from_server(SocketTransportObject* transport) noexcept;

/// Enters a transport's context (null: none yet) for a call of its protocol, and leaves it with an exception that the
/// call raised kept. Owns the context meanwhile: the call may lose the connection, whose transport then
/// lets go of it.
class ProtocolContext {
public:
    explicit ProtocolContext(PyObject* context) noexcept;
    ~ProtocolContext();
    ProtocolContext(const ProtocolContext&) = delete;
    ProtocolContext& operator=(const ProtocolContext&) = delete;

private:
    Ref context_;
};

/// Whether a protocol takes its data by get_buffer and buffer_updated; -1 with an exception set.
int is_buffered(const ModuleState* state, PyObject* protocol) noexcept;

/// Calls a method of a protocol with one argument. Looked up each time: programs replace the methods
/// of protocols that are connected already, to go on in another state.
inline Ref call_method(PyObject* protocol, PyObject* name, PyObject* argument) noexcept {
    const Ref alive = Ref::borrow(protocol);
    PyObject* stack[3] = {nullptr, protocol, argument};
    return Ref(
        PyObject_VectorcallMethod(name, stack + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

/// Calls a method of the protocol with the transport's context entered.
Ref call_protocol(SocketTransportObject* transport, PyObject* method,
                  PyObject* argument = nullptr) noexcept;

/// Asks the poller for what the transport's state wants to be told of.
void update_interest(SocketTransportObject* transport) noexcept;

/// Whether bytes may wait for the running callback to end, to leave with others: `CallbackScope`.
enum class Hold : bool { never, allowed };

/// Sends what the kernel takes now and queues a copy of the rest; ignored when the connection is lost.
void send_copy(SocketTransportObject* transport, const char* data, std::size_t size,
               Hold hold) noexcept;

/// Deals with the raised exception: reported unless it is an OSError, then the connection is closed.
void fail_with_raised(SocketTransportObject* transport, const char* message) noexcept;

/// The same with the OSError for an errno value.
void fail_with_errno(SocketTransportObject* transport, int error, const char* message) noexcept;

/// Closes without sending what waits for the socket; `reason` (may be null) goes to connection_lost.
void force_close(SocketTransportObject* transport, PyObject* reason) noexcept;

/// Closes after what waits was sent. False with an exception set when the loop is closed.
bool close_gracefully(SocketTransportObject* transport) noexcept;

/// Calls connection_lost, closes the descriptor, and lets the transport go.
void lose_connection(SocketTransportObject* transport) noexcept;

/// The socket has room again: sends from the queue.
void send_ready(SocketTransportObject* transport) noexcept;

/// Sends what writes of the running callback have left for its end. The connection may be lost then.
void send_held(SocketTransportObject* transport) noexcept;

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

/// The high-water mark of a socket's write queue, in bytes, unless it is set.
constexpr std::size_t default_high_water = std::size_t{64} * 1024;

[[nodiscard]] inline std::size_t queued(const SocketTransportObject* transport) noexcept {
    return transport->queue != nullptr ? transport->queue->size() : 0;
}

/// RuntimeError when an open transport owns the descriptor of `file_object`.
bool check_no_transport(LoopObject* loop, PyObject* file_object) noexcept;

/// The same for a descriptor already looked up.
bool check_no_transport(LoopObject* loop, PyObject* file_object, int fd) noexcept;

/// The loop is closed: lets go of all open transports.
void release_transports(LoopObject* loop) noexcept;

int traverse_transports(LoopObject* loop, visitproc visit, void* arg) noexcept;

} // namespace penstock::python
