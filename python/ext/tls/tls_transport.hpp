#pragma once

#include "core/loop.hpp"
#include "net/socket_transport.hpp"
#include "net/water_marks.hpp"
#include "net/write_queue.hpp"
#include "tls/tls_session.hpp"

#include <cstddef>

namespace penstock::python {

/// A TLS connection over a socket transport. To the application it is an asyncio.Transport, to the
/// socket transport a native protocol. The counterpart of asyncio's SSLProtocol and
/// _SSLProtocolTransport.
///
/// The socket transport `raw` owns the descriptor. This object owns `raw`, and `raw` owns this
/// object as its protocol; losing the connection breaks the cycle.
struct TlsTransportObject {
    enum class State : unsigned char {
        unwrapped, ///< not begun, or lost
        handshaking,
        open,
        flushing, ///< closing: written data is still being sent
        ending,   ///< close_notify is sent, the peer's is awaited
    };
    /// The last callback of the application's protocol.
    enum class Notified : unsigned char { nothing, made, ended, lost };

    PyObject ob_base;
    /// As in SocketTransportObject: the slots of asyncio's base classes.
    PyObject* extra;
    PyObject* flow_control_slots[4];
    LoopObject* loop;           ///< owned; null after connection_lost
    SocketTransportObject* raw; ///< owned; null until it is connected
    TlsSession* session;
    PyObject* protocol;       ///< the application's; null after connection_lost
    PyObject* asyncio_reader; ///< weak reference to the reader of asyncio's own stream; else null
    PyObject* context;        ///< contextvars.Context of the socket transport
    PyObject* waiter;         ///< future that waits for the handshake, or null
    PyObject* handshake_timeout; ///< in seconds, as given
    PyObject* shutdown_timeout;
    PyObject* handshake_timer; ///< TimerHandle or null
    PyObject* shutdown_timer;
    PyObject* attributes; ///< dictionary of the attributes that the program has set, or null
    PyObject* weak_references;
    WriteQueue* backlog; ///< written data that is not encrypted yet
    WaterMarks write_marks;
    WaterMarks read_marks; ///< for received data that waits for a paused protocol
    double handshake_began;
    unsigned lost_writes;
    State state;
    Notified notified;
    bool closed; ///< close() or abort() was called, or the connection is lost
    bool paused; ///< by pause_reading()
    bool raw_reading_paused;
    bool raw_writing_paused;
    bool protocol_paused;
    bool eof_received;    ///< TCP's end, not TLS's
    bool reading_goes_on; ///< in the next iteration: the protocol has had its time in this one
    bool buffered_protocol;
    bool dispatching; ///< in a call of the dispatcher, where no task runs
};

/// The callbacks of a TlsTransportObject, for its socket transport.
extern const NativeProtocol tls_protocol;

inline TlsTransportObject* tls_of(PyObject* object) noexcept {
    return reinterpret_cast<TlsTransportObject*>(object);
}

// Shared by tls_transport.cpp (the Python type), tls_connection.cpp (handshake, shutdown, loss) and
// tls_transfer.cpp.

/// Handles the raised exception: reports it unless it is an OSError, then drops the connection.
void fail_with_raised(TlsTransportObject* tls, const char* message) noexcept;

/// Passes the session's records to the socket.
void send_output(TlsTransportObject* tls) noexcept;

/// Decrypts and delivers received data, then sends what this allows.
void read_available(TlsTransportObject* tls) noexcept;

/// Encrypts and sends from the backlog, as much as the socket takes.
void write_backlog(TlsTransportObject* tls) noexcept;

/// Pauses or resumes the protocol according to the backlog.
void control_writing(TlsTransportObject* tls) noexcept;

/// Pauses or resumes the socket according to the data that waits for a paused protocol.
void control_raw_reading(TlsTransportObject* tls) noexcept;

/// Calls eof_received once.
void notify_eof(TlsTransportObject* tls) noexcept;

void continue_handshake(TlsTransportObject* tls) noexcept;

/// Sends queued data and close_notify, then waits for the peer's. A timeout bounds all of it.
void begin_shutdown(TlsTransportObject* tls) noexcept;

/// Continues a shutdown that has begun.
void continue_shutdown(TlsTransportObject* tls) noexcept;

/// Drops the connection. `reason` may be null.
void abort_connection(TlsTransportObject* tls, PyObject* reason) noexcept;

void pause_raw_writing(PyObject* self);
void resume_raw_writing(PyObject* self);
void receive_records(PyObject* self, const char* data, std::size_t size);

/// Continues reading, or shutting down, in the next iteration. False with an exception set.
bool schedule_resume(TlsTransportObject* tls) noexcept;

/// Encrypts and sends or queues data. False with an exception set.
bool write_data(TlsTransportObject* tls, PyObject* data) noexcept;

[[nodiscard]] inline bool is_closing(const TlsTransportObject* tls) noexcept {
    return tls->closed || (tls->raw != nullptr && tls->raw->closing);
}

[[nodiscard]] inline std::size_t backlog_size(const TlsTransportObject* tls) noexcept {
    return tls->backlog != nullptr ? tls->backlog->size() : 0;
}

/// Appends `data[offset:]`, a bytes object, to the backlog. False with MemoryError set.
bool add_to_backlog(TlsTransportObject* tls, PyObject* data, std::size_t offset) noexcept;

void connect_tls(PyObject* self, SocketTransportObject* raw);
PyObject* tls_check_handshake_timeout(PyObject* self, PyObject* unused);
PyObject* tls_check_shutdown_timeout(PyObject* self, PyObject* unused);

} // namespace penstock::python
