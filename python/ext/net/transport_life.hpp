#pragma once

#include "core/loop.hpp"
#include "core/memory_reserve.hpp"

#include <cerrno>
#include <cstdint>

#include <penstock/io/poller.hpp>

namespace penstock::python {

// The part of a transport's life cycle that is the same for every kind. The kinds are plain structs
// without a common base: the first fields of each are the layout of the asyncio class that it
// derives from, and those layouts differ. So these are templates, instantiated once for each kind
// (in socket_connection.cpp and datagram_transport.cpp).
//
// Each kind provides these functions:
//   std::uint32_t wanted_interest(const Transport*)
//       returns the events to request from the poller in the transport's state
//   void drop_queue(Transport*)
//       drops the data that waits for the socket
//   void lose_connection(Transport*)
//       calls connection_lost and closes the descriptor

/// Requests the events that the transport's state needs from the poller. Fails the transport where
/// the poller refuses.
template <typename Transport> void update_interest(Transport* transport) noexcept;

/// Handles the raised exception: reports it unless it is an OSError, then closes the transport by
/// force. An exception that ends the program (SystemExit, KeyboardInterrupt) interrupts the loop
/// instead.
template <typename Transport>
void fail_with_raised(Transport* transport, const char* message) noexcept;

/// The same with the OSError for an errno value.
template <typename Transport>
void fail_with_errno(Transport* transport, int error, const char* message) noexcept;

/// Closes without sending the queued data. `reason` (may be null) is passed to connection_lost,
/// which is called in the next iteration.
template <typename Transport> void force_close(Transport* transport, PyObject* reason) noexcept;

/// Calls `lose_connection` in the next iteration. False with an exception set.
template <typename Transport> bool schedule_loss(Transport* transport) noexcept {
    constexpr auto lose = [](LoopObject* /*loop*/, PyObject* target) {
        lose_connection(reinterpret_cast<Transport*>(target));
    };
    return schedule_native(transport->loop, lose, as_object(transport));
}

template <typename Transport> void update_interest(Transport* transport) noexcept {
    if (transport->loop == nullptr || transport->loop->io == nullptr || transport->fd < 0) {
        return;
    }
    const std::uint32_t interest = wanted_interest(transport);
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

template <typename Transport>
void fail_with_raised(Transport* transport, const char* message) noexcept {
    if (transport->loop == nullptr) {
        PyErr_WriteUnraisable(as_object(transport));
        return;
    }
    if (exception_ends_program()) {
        interrupt_with_raised(transport->loop);
        return;
    }
    const Ref exception = take_exception();
    const ReleasedReserve reserve(transport->loop, exception.get());
    if (PyErr_GivenExceptionMatches(exception.get(), PyExc_OSError) == 0) {
        raise_exception(Ref::borrow(exception.get()));
        report_raised(transport->loop, message, as_object(transport), transport->protocol);
    }
    force_close(transport, exception.get());
}

template <typename Transport>
void fail_with_errno(Transport* transport, int error, const char* message) noexcept {
    errno = error;
    PyErr_SetFromErrno(PyExc_OSError);
    fail_with_raised(transport, message);
}

template <typename Transport> void force_close(Transport* transport, PyObject* reason) noexcept {
    if (transport->lost > 0 || transport->loop == nullptr) {
        return;
    }
    drop_queue(transport);
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

} // namespace penstock::python
