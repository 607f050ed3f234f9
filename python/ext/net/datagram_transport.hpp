#pragma once

#include "core/loop.hpp"
#include "net/transport_life.hpp"
#include "net/water_marks.hpp"

#include <cstddef>
#include <deque>

#include <penstock/io/owner_of.hpp>
#include <penstock/io/poller.hpp>

namespace penstock::python {

/// A datagram that waits for the socket.
struct UnsentDatagram {
    Ref data;   ///< bytes
    Ref target; ///< address object or None
};

/// The transport of a datagram socket (UDP or Unix): an asyncio.DatagramTransport.
///
/// The transport owns `socket`, which owns the descriptor `fd`; closing goes through
/// `socket.close()`. While the transport is open the loop's list holds a reference to it, as a
/// selector's callbacks would; `lose_connection` ends that.
struct DatagramTransportObject {
    PyObject ob_base;
    /// BaseTransport's slot `_extra`: Python's layout.
    PyObject* extra;
    io::Watch watch;
    LoopObject* loop; ///< owned; null after connection_lost
    io::ListHook<DatagramTransportObject>
        open_hook;          ///< in the loop's list of open transports of this kind
    PyObject* protocol;     ///< null after connection_lost
    PyObject* context;      ///< contextvars.Context of its creation
    PyObject* socket;       ///< socket.socket that owns the descriptor; null once closed
    PyObject* fixed_target; ///< the only address to send to, or null
    PyObject* waiter;       ///< future of create_datagram_endpoint, or null
    PyObject* lost_reason;  ///< exception for connection_lost, or null
    PyObject* undelivered;  ///< list of (data, address) received before a pause, or null
    PyObject* attributes;   ///< dictionary of the attributes that the program has set, or null
    PyObject* weak_references;
    std::deque<UnsentDatagram>* queue; ///< made by the first datagram that cannot be sent at once
    std::size_t queued_size;
    WaterMarks water_marks;
    int fd; ///< -1 once closed
    int family;
    int expected;  ///< number of datagrams that the next read requests
    unsigned lost; ///< 0; 1 once connection_lost is due; later sends are counted on top
    bool connected;
    bool unnamed_peer; ///< connected to a Unix socket without a name, such as one of a socketpair
    bool closing;
    bool started; ///< connection_made was called and reading may begin
    bool paused;
    bool protocol_paused;
    bool listed;
};

inline DatagramTransportObject* datagram_transport_of(PyObject* object) noexcept {
    return reinterpret_cast<DatagramTransportObject*>(object);
}

// Shared by datagram_transport.cpp (the Python type, making and closing) and datagram_transfer.cpp
// (receiving, sending).

/// Calls connection_lost, closes the descriptor, and removes the transport from the loop's list.
void lose_connection(DatagramTransportObject* transport) noexcept;

// Hooks of transport_life.hpp, beside `lose_connection`.

std::uint32_t wanted_interest(const DatagramTransportObject* transport) noexcept;
void drop_queue(DatagramTransportObject* transport) noexcept;

extern template void update_interest(DatagramTransportObject* transport) noexcept;
extern template void fail_with_raised(DatagramTransportObject* transport,
                                      const char* message) noexcept;
extern template void fail_with_errno(DatagramTransportObject* transport, int error,
                                     const char* message) noexcept;
extern template void force_close(DatagramTransportObject* transport, PyObject* reason) noexcept;

void on_datagram_ready(io::Watch& watch, std::uint32_t events);

/// Delivers the datagrams that a pause has kept back. A native step (see `HandleObject`).
void deliver_undelivered(LoopObject* loop, PyObject* target);

/// Pauses the protocol when more bytes wait than the high-water mark allows.
void pause_protocol_if_full(DatagramTransportObject* transport) noexcept;

PyObject* datagram_transport_sendto(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                                    PyObject* keywords);

[[nodiscard]] inline bool has_queued(const DatagramTransportObject* transport) noexcept {
    return transport->queue != nullptr && !transport->queue->empty();
}

/// The transport that `watch` belongs to, or null when it belongs to another kind of object.
DatagramTransportObject* datagram_transport_of(io::Watch& watch) noexcept;

/// Drops all open datagram transports: the loop is closed.
void release_datagram_transports(LoopObject* loop) noexcept;

int traverse_datagram_transports(LoopObject* loop, visitproc visit, void* arg) noexcept;

} // namespace penstock::python
