#pragma once

#include "loop.hpp"
#include "water_marks.hpp"

#include <cstddef>
#include <deque>

#include <penstock/io/poller.hpp>

namespace penstock::python {

/// A datagram that the kernel did not take at once.
struct UnsentDatagram {
    Ref data;   ///< bytes
    Ref target; ///< address object or None
};

/// The transport of a datagram socket (UDP or Unix): an asyncio.DatagramTransport.
///
/// While it is open the loop holds a reference, as a selector's callbacks would; `connection_lost`
/// ends that.
struct DatagramTransportObject {
    PyObject ob_base;
    /// BaseTransport's slot `_extra`: its place in memory is Python's.
    PyObject* extra;
    io::Watch watch;
    LoopObject* loop;                  ///< owned; null after connection_lost
    DatagramTransportObject* previous; ///< in the loop's list of open datagram transports
    DatagramTransportObject* next;
    PyObject* protocol;     ///< null after connection_lost
    PyObject* context;      ///< contextvars.Context of its creation
    PyObject* socket;       ///< socket.socket that owns the descriptor; null once closed
    PyObject* fixed_target; ///< the one address that it may send to, or null
    PyObject* waiter;       ///< future of create_datagram_endpoint, or null
    PyObject* lost_reason;  ///< exception for connection_lost, or null
    PyObject* undelivered;  ///< list of (data, address) fetched before a pause, or null
    PyObject* attributes;   ///< what the program has set on the transport; or null
    PyObject* weak_references;
    std::deque<UnsentDatagram>* queue; ///< made by the first datagram that was not sent at once
    std::size_t queued_size;
    WaterMarks water_marks;
    int fd; ///< -1 once closed
    int family;
    int expected;  ///< how many datagrams the next read asks for
    unsigned lost; ///< 0, then 1 when connection_lost is due, then counts the sends after it
    bool connected;
    bool unnamed_peer; ///< connected to a Unix socket without a name, as one of a pair is
    bool closing;
    bool started; ///< connection_made was called and reading may begin
    bool paused;
    bool protocol_paused;
    bool listed;
};

inline DatagramTransportObject* datagram_transport_of(PyObject* object) noexcept {
    return reinterpret_cast<DatagramTransportObject*>(object);
}

// Between datagram_transport.cpp (the object, its life) and datagram_transfer.cpp (its datagrams):

/// Asks the poller for what the transport's state wants to be told of.
void update_interest(DatagramTransportObject* transport) noexcept;

/// Deals with the raised exception, which is no OSError: reported, then the transport is closed.
void fail_with_raised(DatagramTransportObject* transport, const char* message) noexcept;

/// Closes without sending what waits; `reason` (may be null) goes to connection_lost.
void force_close(DatagramTransportObject* transport, PyObject* reason) noexcept;

/// Calls connection_lost, closes the descriptor, and lets the transport go.
void lose_connection(DatagramTransportObject* transport) noexcept;

void on_datagram_ready(io::Watch& watch, std::uint32_t events);

/// A step that delivers what a pause had held back.
void deliver_held(LoopObject* loop, PyObject* target);

/// Pauses the protocol when more waits than the high-water mark.
void pause_protocol_if_full(DatagramTransportObject* transport) noexcept;

PyObject* datagram_transport_sendto(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                                    PyObject* keywords);

[[nodiscard]] inline bool has_queued(const DatagramTransportObject* transport) noexcept {
    return transport->queue != nullptr && !transport->queue->empty();
}

/// The transport that `watch` belongs to, or null when it is something else's.
DatagramTransportObject* datagram_transport_of(const io::Watch& watch) noexcept;

/// The loop is closed: lets go of all open datagram transports.
void release_datagram_transports(LoopObject* loop) noexcept;

int traverse_datagram_transports(LoopObject* loop, visitproc visit, void* arg) noexcept;

} // namespace penstock::python
