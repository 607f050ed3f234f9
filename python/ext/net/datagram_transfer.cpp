// Receiving, sending and flow control of a datagram transport.

#include "net/datagram_transport.hpp"

#include "core/slow_callback.hpp"
#include "net/address.hpp"
#include "net/address_cache.hpp"
#include "net/datagram_batch.hpp"
#include "net/socket_transport.hpp"
#include "shared/buffer_view.hpp"

#include <algorithm>
#include <cerrno>
#include <new>
#include <string_view>

namespace penstock::python {

namespace {

constexpr int send_flags = MSG_DONTWAIT | MSG_NOSIGNAL;

/// The size of a queued datagram beyond its data, so that empty datagrams fill the queue too.
constexpr std::size_t header_size = PY_VERSION_HEX >= 0x030D0000 ? 8 : 0;

enum class Sent : unsigned char { yes, not_now, failed };

/// Whether connection_lost has been called.
bool is_gone(const DatagramTransportObject* transport) noexcept {
    return transport->fd < 0 || transport->loop == nullptr;
}

std::string_view bytes_of(PyObject* bytes) noexcept {
    return {PyBytes_AS_STRING(bytes), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes))};
}

void report(DatagramTransportObject* transport, const char* message) noexcept {
    report_raised(transport->loop, message, as_object(transport), transport->protocol);
}

// ---- receiving ----------------------------------------------------------------------------------

/// Calls error_received with the OSError for an errno value, with the transport's context entered.
void notify_receive_error(DatagramTransportObject* transport, int error) noexcept {
    errno = error;
    PyErr_SetFromErrno(PyExc_OSError);
    const Ref exception = take_exception();
    const ProtocolContext context(transport->context);
    const Ref protocol = Ref::borrow(transport->protocol);
    if (!Ref(PyObject_CallMethodOneArg(protocol.get(), transport->loop->state->name_error_received,
                                       exception.get()))) {
        report(transport, "Exception in callback protocol.error_received()");
    }
}

/// Calls datagram_received. The transport's context must be entered.
void deliver(DatagramTransportObject* transport, PyObject* data, PyObject* sender) noexcept {
    const Ref protocol = Ref::borrow(transport->protocol);
    PyObject* stack[4] = {nullptr, protocol.get(), data, sender};
    const Ref result(PyObject_VectorcallMethod(transport->loop->state->name_datagram_received,
                                               stack + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                               nullptr));
    if (!result) {
        report(transport, "Exception in callback protocol.datagram_received()");
    }
}

/// Whether another datagram may be delivered now.
bool may_deliver(const DatagramTransportObject* transport) noexcept {
    return !transport->closing && !transport->paused && transport->loop != nullptr &&
           transport->loop->pending_exception == nullptr;
}

PyObject* bytes_of(const DatagramBatch::Datagram& datagram) noexcept {
    return PyBytes_FromStringAndSize(datagram.data, static_cast<Py_ssize_t>(datagram.size));
}

/// Keeps received datagrams that may not be delivered now. The loop continues in the next
/// iteration.
bool keep_undelivered(DatagramTransportObject* transport, const DatagramBatch& batch, int first,
                      int count) noexcept {
    Ref held(PyList_New(0));
    for (int i = first; held && i < count; ++i) {
        const DatagramBatch::Datagram datagram = batch[i];
        const Ref sender =
            transport->loop->senders->to_python(datagram.sender, datagram.sender_length);
        const Ref data(bytes_of(datagram));
        const Ref pair(sender && data ? PyTuple_Pack(2, data.get(), sender.get()) : nullptr);
        if (!pair || PyList_Append(held.get(), pair.get()) != 0) {
            return false;
        }
    }
    transport->undelivered = held.release();
    // If it is paused, resume_reading() schedules the delivery.
    return transport->undelivered != nullptr &&
           (transport->paused ||
            schedule_native(transport->loop, &deliver_undelivered, as_object(transport)));
}

// asyncio delivers one datagram in an iteration. A batch is delivered in one, unless the protocol
// is slow: others wait for `callbacks_slice` and one call of it, not for sixteen. A slow protocol
// gets its next datagrams one by one, each in its turn among the descriptors.
void deliver_batch(DatagramTransportObject* transport, const DatagramBatch& batch,
                   int count) noexcept {
    const ProtocolContext context(transport->context);
    io::TimeSlice slice(callbacks_slice);
    slice.begin();
    bool slow = false;
    for (int i = 0; i < count; ++i) {
        if (slow || !may_deliver(transport)) {
            if (!transport->closing && transport->loop != nullptr) {
                if (!keep_undelivered(transport, batch, i, count)) {
                    fail_with_raised(transport, "Fatal read error on datagram transport");
                }
                update_interest(transport);
            }
            return;
        }
        const DatagramBatch::Datagram datagram = batch[i];
        const Ref sender =
            transport->loop->senders->to_python(datagram.sender, datagram.sender_length);
        const Ref data(bytes_of(datagram));
        if (!sender || !data) {
            fail_with_raised(transport, "Fatal read error on datagram transport");
            return;
        }
        deliver(transport, data.get(), sender.get());
        slow = slice.is_over();
        if (slow) {
            transport->expected = 1;
        }
    }
}

DatagramBatch* batch_of(LoopObject* loop) noexcept {
    try {
        if (loop->senders == nullptr) {
            loop->senders = new AddressCache;
        }
        if (loop->datagrams == nullptr) {
            loop->datagrams = new DatagramBatch;
        }
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    }
    return loop->datagrams;
}

/// Requests one datagram more than the last read returned. A lone datagram costs a single call, and
/// bursts soon arrive sixteen at a time.
void receive(DatagramTransportObject* transport) noexcept {
    DatagramBatch* batch = batch_of(transport->loop);
    if (batch == nullptr) {
        fail_with_raised(transport, "Fatal read error on datagram transport");
        return;
    }
    const bool internet = transport->family != AF_UNIX;
    const int count = internet ? batch->receive(transport->fd, transport->expected)
                               : batch->receive_whole(transport->fd);
    if (count < 0) {
        if (!would_block(errno)) {
            notify_receive_error(transport, errno);
        }
        return;
    }
    transport->expected = std::min(count + 1, DatagramBatch::capacity);
    deliver_batch(transport, *batch, count);
}

// ---- sending ------------------------------------------------------------------------------------

/// Calls error_received with the raised OSError. False when error_received() has raised.
bool notify_send_error(DatagramTransportObject* transport) noexcept {
    const Ref exception = take_exception();
    const Ref protocol = Ref::borrow(transport->protocol);
    return !protocol ||
           Ref(PyObject_CallMethodOneArg(
               protocol.get(), state_of(Py_TYPE(transport))->name_error_received, exception.get()));
}

/// The socket module's sendto, for addresses that it must resolve or refuse.
Sent send_by_socket(DatagramTransportObject* transport, PyObject* data, PyObject* target) noexcept {
    const Ref socket = Ref::borrow(transport->socket);
    if (Ref(PyObject_CallMethod(socket.get(), "sendto", "OO", data, target))) {
        return Sent::yes;
    }
    if (PyErr_ExceptionMatches(PyExc_BlockingIOError) != 0 ||
        PyErr_ExceptionMatches(PyExc_InterruptedError) != 0) {
        PyErr_Clear();
        return Sent::not_now;
    }
    return Sent::failed;
}

/// Sends one datagram, the `bytes` of `data`. Sets an exception on failure. The connection may be
/// lost afterwards: a socket's class may have its own sendto().
Sent try_to_send(DatagramTransportObject* transport, PyObject* data, std::string_view bytes,
                 PyObject* target) noexcept {
    sockaddr_in6 numeric;
    const sockaddr_in6* address = nullptr;
    socklen_t length = 0;
    const bool to_peer = transport->connected || (transport->unnamed_peer && target == Py_None);
    if (!to_peer) {
        const AddressCache* senders = transport->loop->senders;
        address = senders != nullptr ? senders->latest(target, length) : nullptr;
        if (address == nullptr || address->sin6_family != transport->family) {
            address = &numeric;
            length = numeric_address(target, transport->family, numeric);
        }
        if (length == 0) {
            return send_by_socket(transport, data, target);
        }
    }
    const ssize_t count = ::sendto(transport->fd, bytes.data(), bytes.size(), send_flags,
                                   reinterpret_cast<const sockaddr*>(address), length);
    if (count >= 0) {
        return Sent::yes;
    }
    if (would_block(errno)) {
        return Sent::not_now;
    }
    PyErr_SetFromErrno(PyExc_OSError);
    return Sent::failed;
}

std::size_t cost_of(const UnsentDatagram& datagram) noexcept {
    return static_cast<std::size_t>(PyBytes_GET_SIZE(datagram.data.get())) + header_size;
}

bool enqueue(DatagramTransportObject* transport, PyObject* data, std::string_view bytes,
             PyObject* target) noexcept {
    Ref owned(PyBytes_CheckExact(data)
                  ? Py_NewRef(data)
                  : PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
    if (!owned) {
        return false;
    }
    try {
        if (transport->queue == nullptr) {
            transport->queue = new std::deque<UnsentDatagram>;
        }
        transport->queue->push_back({std::move(owned), Ref::borrow(target)});
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
    transport->queued_size += cost_of(transport->queue->back());
    return true;
}

void resume_protocol_if_drained(DatagramTransportObject* transport) noexcept {
    if (!transport->protocol_paused || transport->queued_size > transport->water_marks.low ||
        transport->protocol == nullptr) {
        return;
    }
    transport->protocol_paused = false;
    const ProtocolContext context(transport->context);
    const Ref protocol = Ref::borrow(transport->protocol);
    if (!Ref(PyObject_CallMethodNoArgs(protocol.get(),
                                       transport->loop->state->name_resume_writing))) {
        report(transport, "protocol.resume_writing() failed");
    }
}

/// Sends from the queue. False when the rest must wait for another event.
bool send_queued(DatagramTransportObject* transport) noexcept {
    while (has_queued(transport)) {
        const Ref data = Ref::borrow(transport->queue->front().data.get());
        const Ref target = Ref::borrow(transport->queue->front().target.get());
        const Sent sent = try_to_send(transport, data.get(), bytes_of(data.get()), target.get());
        if (transport->lost > 0) { // the queue is dropped too
            if (sent == Sent::failed) {
                PyErr_WriteUnraisable(as_object(transport));
            }
            return false;
        }
        if (sent == Sent::not_now) {
            return true;
        }
        transport->queued_size -= cost_of(transport->queue->front());
        transport->queue->pop_front();
        if (sent == Sent::yes) {
            continue;
        }
        if (PyErr_ExceptionMatches(PyExc_OSError) == 0) {
            fail_with_raised(transport, "Fatal write error on datagram transport");
            return false;
        }
        bool accepted = false;
        {
            const ProtocolContext context(transport->context);
            accepted = notify_send_error(transport);
        }
        if (!accepted) {
            report(transport, "Exception in callback protocol.error_received()");
        }
        return false;
    }
    return true;
}

void send_ready(DatagramTransportObject* transport) noexcept {
    if (!send_queued(transport) || transport->lost > 0) {
        return;
    }
    resume_protocol_if_drained(transport); // may send, close or abort
    if (transport->lost > 0 || has_queued(transport)) {
        return;
    }
    update_interest(transport);
    if (transport->closing) {
        lose_connection(transport);
    }
}

/// Counts a send after the connection was lost. Warns as asyncio does.
bool note_lost_send(DatagramTransportObject* transport) noexcept {
    constexpr unsigned log_threshold = 5;
    if (transport->lost >= log_threshold &&
        !upcall(state_of(Py_TYPE(transport)), "warn_of_lost_write", nullptr, 0)) {
        return false;
    }
    ++transport->lost;
    return true;
}

/// Handles the exception that a send has raised, as asyncio does. False when sendto() must raise
/// it.
bool handle_failed_send(DatagramTransportObject* transport) noexcept {
    if (PyErr_ExceptionMatches(PyExc_OSError) != 0) {
        return notify_send_error(transport);
    }
    if (exception_ends_program() || transport->loop == nullptr) {
        return false;
    }
    fail_with_raised(transport, "Fatal write error on datagram transport");
    return true;
}

bool send_or_queue(DatagramTransportObject* transport, PyObject* data, std::string_view bytes,
                   PyObject* target) noexcept {
    if (!has_queued(transport)) {
        switch (try_to_send(transport, data, bytes, target)) {
        case Sent::yes:
            return true;
        case Sent::failed:
            return handle_failed_send(transport);
        case Sent::not_now:
            break;
        }
        if (is_gone(transport)) {
            return true;
        }
    }
    if (!enqueue(transport, data, bytes, target)) {
        return false;
    }
    update_interest(transport);
    pause_protocol_if_full(transport);
    return true;
}

/// The target for `given`: itself, or the only allowed address. Null with ValueError set.
Ref target_for(const DatagramTransportObject* transport, PyObject* given) noexcept {
    if (transport->fixed_target == nullptr) {
        return Ref::borrow(given);
    }
    if (given != Py_None) {
        const int same = PyObject_RichCompareBool(given, transport->fixed_target, Py_EQ);
        if (same < 0) {
            return Ref();
        }
        if (same == 0) {
            PyErr_Format(PyExc_ValueError, "Invalid address: must be None or %S",
                         transport->fixed_target);
            return Ref();
        }
    }
    return Ref::borrow(transport->fixed_target);
}

/// Reads the arguments (data, addr=None). False with TypeError set.
bool parse_sendto(PyObject* const* arguments, Py_ssize_t count, PyObject* keywords, PyObject*& data,
                  PyObject*& target) noexcept {
    const Py_ssize_t keyword_count = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    data = count > 0 ? arguments[0] : nullptr;
    target = count > 1 ? arguments[1] : Py_None;
    bool known = count <= 2;
    for (Py_ssize_t i = 0; i < keyword_count; ++i) {
        PyObject* name = PyTuple_GET_ITEM(keywords, i);
        if (PyUnicode_CompareWithASCIIString(name, "addr") == 0 && count < 2) {
            target = arguments[count + i];
        } else if (PyUnicode_CompareWithASCIIString(name, "data") == 0 && count < 1) {
            data = arguments[count + i];
        } else {
            known = false;
        }
    }
    if (!known || data == nullptr) {
        PyErr_SetString(PyExc_TypeError, "sendto() takes data and an address, addr=None");
        return false;
    }
    if (!PyBytes_Check(data) && !PyByteArray_Check(data) && !PyMemoryView_Check(data)) {
        const Ref name(PyType_GetName(Py_TYPE(data)));
        PyErr_Format(PyExc_TypeError, "data argument must be a bytes-like object, not %R",
                     name.get());
        return false;
    }
    return true;
}

} // namespace

void on_datagram_ready(io::Watch& watch, std::uint32_t events) {
    DatagramTransportObject* transport = datagram_transport_of(watch);
    const Ref alive = Ref::borrow(as_object(transport));
    const SlowCallbackWatch slowness(transport->loop, as_object(transport));
    const std::uint32_t interest = watch.interest;
    constexpr std::uint32_t trouble = io::hung_up | io::failed;
    if ((events & (io::readable | trouble)) != 0 && (interest & io::readable) != 0) {
        receive(transport);
    }
    if ((events & (io::writable | trouble)) != 0 && (interest & io::writable) != 0 &&
        transport->lost == 0 && transport->loop != nullptr &&
        transport->loop->pending_exception == nullptr) {
        send_ready(transport);
    }
}

void deliver_undelivered(LoopObject* /*loop*/, PyObject* target) {
    DatagramTransportObject* transport = datagram_transport_of(target);
    const Ref alive = Ref::borrow(target);
    if (transport->context == nullptr) {
        return; // the connection is lost
    }
    const ProtocolContext context(transport->context);
    io::TimeSlice slice(callbacks_slice);
    slice.begin();
    while (transport->undelivered != nullptr && may_deliver(transport)) {
        if (PyList_GET_SIZE(transport->undelivered) == 0) {
            Py_CLEAR(transport->undelivered);
            update_interest(transport);
            return;
        }
        const Ref pair = Ref::borrow(PyList_GET_ITEM(transport->undelivered, 0));
        if (PyList_SetSlice(transport->undelivered, 0, 1, nullptr) != 0) {
            PyErr_WriteUnraisable(target);
        }
        deliver(transport, PyTuple_GET_ITEM(pair.get(), 0), PyTuple_GET_ITEM(pair.get(), 1));
        if (slice.is_over()) {
            break;
        }
    }
    // Interrupted or slow, not paused: continue in the next iteration.
    if (transport->undelivered != nullptr && !transport->paused && !transport->closing &&
        transport->loop != nullptr &&
        !schedule_native(transport->loop, &deliver_undelivered, as_object(transport))) {
        PyErr_WriteUnraisable(target);
    }
}

void pause_protocol_if_full(DatagramTransportObject* transport) noexcept {
    if (transport->protocol_paused || transport->queued_size <= transport->water_marks.high ||
        transport->protocol == nullptr) {
        return;
    }
    transport->protocol_paused = true;
    const Ref protocol = Ref::borrow(transport->protocol);
    if (!Ref(PyObject_CallMethodNoArgs(protocol.get(),
                                       transport->loop->state->name_pause_writing))) {
        report(transport, "protocol.pause_writing() failed");
    }
}

PyObject* datagram_transport_sendto(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                                    PyObject* keywords) {
    DatagramTransportObject* transport = datagram_transport_of(self);
    PyObject* data = nullptr;
    PyObject* given = nullptr;
    if (!parse_sendto(arguments, count, keywords, data, given)) {
        return nullptr;
    }
    if (PY_VERSION_HEX < 0x030D0000) { // later versions send an empty datagram
        const Py_ssize_t size = PyObject_Size(data);
        if (size <= 0) {
            return size == 0 ? Py_NewRef(Py_None) : nullptr;
        }
    }
    const Ref target = target_for(transport, given);
    if (!target) {
        return nullptr;
    }
    BufferView view;
    const bool plain = PyBytes_CheckExact(data);
    const bool exported = plain || is_gone(transport) || view.acquire(data, PyBUF_SIMPLE);
    // Checked here: all of the program's code has run, and it may have closed the connection.
    bool done = false;
    if (!exported) {
        done = handle_failed_send(transport);
    } else if (is_gone(transport) || (transport->lost > 0 && transport->fixed_target != nullptr)) {
        done = note_lost_send(transport);
    } else {
        done = send_or_queue(transport, data, plain ? bytes_of(data) : view.bytes(), target.get());
    }
    return done ? Py_NewRef(Py_None) : nullptr;
}

} // namespace penstock::python
