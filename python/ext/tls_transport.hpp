#pragma once

#include "loop.hpp"
#include "socket_transport.hpp"
#include "tls_session.hpp"
#include "water_marks.hpp"
#include "write_queue.hpp"

#include <cstddef>

namespace penstock::python {

/// A TLS connection over a socket transport: to its application an asyncio.Transport, to the socket
/// transport a native protocol. What asyncio has as SSLProtocol and its _SSLProtocolTransport.
struct TlsTransportObject {
    enum class State : unsigned char {
        unwrapped, ///< not begun, or lost
        handshaking,
        open,
        flushing, ///< closing: what was written is still being sent
        ending,   ///< close_notify was sent, the peer's is waited for
    };
    /// What the application's protocol has been told.
    enum class Told : unsigned char { nothing, made, ended, lost };

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
    PyObject* handshake_timeout; ///< seconds, as they were given
    PyObject* shutdown_timeout;
    PyObject* handshake_timer; ///< TimerHandle or null
    PyObject* shutdown_timer;
    PyObject* attributes; ///< what the program has set on the transport; or null
    PyObject* weak_references;
    WriteQueue* backlog; ///< what was written and is not encrypted yet
    WaterMarks write_marks;
    WaterMarks read_marks; ///< of what was received and waits for a protocol that has paused
    double handshake_began;
    unsigned lost_writes;
    State state;
    Told told;
    bool closed; ///< close() or abort() was called, or the connection is lost
    bool paused; ///< by pause_reading()
    bool raw_reading_paused;
    bool raw_writing_paused;
    bool protocol_paused;
    bool eof_received; ///< TCP's, not TLS's
    bool buffered_protocol;
};

/// What a socket transport calls when its protocol is a TlsTransportObject.
extern const NativeProtocol tls_protocol;

inline TlsTransportObject* tls_of(PyObject* object) noexcept {
    return reinterpret_cast<TlsTransportObject*>(object);
}

// Between tls_transport.cpp (the object), tls_connection.cpp (handshake, shutdown, loss) and
// tls_transfer.cpp (its bytes):

/// Deals with the raised exception: the connection is dropped; reported unless it is an OSError.
void fail_with_raised(TlsTransportObject* tls, const char* message) noexcept;

/// Hands the records that the session has made to the socket. Those of the protocol's data may be held
/// for others; an alert must be out before its connection is dropped.
void send_output(TlsTransportObject* tls, Hold hold = Hold::never) noexcept;

/// Decrypts and delivers what has arrived, then sends what this allows to be sent.
void read_available(TlsTransportObject* tls) noexcept;

/// Encrypts and sends from the backlog, as far as the socket takes it.
void write_backlog(TlsTransportObject* tls) noexcept;

/// Pauses or resumes the protocol as the backlog demands.
void control_writing(TlsTransportObject* tls) noexcept;

/// Pauses or resumes the socket as the bytes that wait for a paused protocol demand.
void control_raw_reading(TlsTransportObject* tls) noexcept;

/// Calls eof_received, once.
void tell_eof(TlsTransportObject* tls) noexcept;

void continue_handshake(TlsTransportObject* tls) noexcept;

/// Sends what is waiting, then close_notify, then waits for the peer's; a timeout bounds it all.
void begin_shutdown(TlsTransportObject* tls) noexcept;

/// Goes on with a shutdown that has begun.
void continue_shutdown(TlsTransportObject* tls) noexcept;

/// Drops the connection; `reason` may be null.
void abort_connection(TlsTransportObject* tls, PyObject* reason) noexcept;

void pause_raw_writing(PyObject* self);
void resume_raw_writing(PyObject* self);
void receive_records(PyObject* self, const char* data, std::size_t size);

/// Goes on reading, or shutting down, in the next iteration. False with an exception set.
bool schedule_resume(TlsTransportObject* tls) noexcept;

/// Encrypts and sends or keeps data; false with an exception set.
bool write_data(TlsTransportObject* tls, PyObject* data) noexcept;

[[nodiscard]] inline bool is_closing(const TlsTransportObject* tls) noexcept {
    return tls->closed || (tls->raw != nullptr && tls->raw->closing);
}

[[nodiscard]] inline std::size_t backlog_size(const TlsTransportObject* tls) noexcept {
    return tls->backlog != nullptr ? tls->backlog->size() : 0;
}

/// Keeps `data[offset:]`, a bytes object, for later. False with MemoryError set.
bool add_to_backlog(TlsTransportObject* tls, PyObject* data, std::size_t offset) noexcept;

void connect_tls(PyObject* self, SocketTransportObject* raw);
PyObject* tls_check_handshake_timeout(PyObject* self, PyObject* unused);
PyObject* tls_check_shutdown_timeout(PyObject* self, PyObject* unused);

} // namespace penstock::python
