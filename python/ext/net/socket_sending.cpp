// Sending on a socket transport: at once or from its queue; flow control.

#include "net/socket_transport.hpp"
#include "shared/buffer_view.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <string_view>

#include <sys/socket.h>

namespace penstock::python {

namespace {

constexpr int send_flags = MSG_NOSIGNAL | MSG_DONTWAIT;

/// Chunks in one sendmsg(2). IOV_MAX is 1024, but a socket buffer is full long before that.
constexpr int max_chunks_per_send = 64;

// A call of the protocol may change any state: it may replace the protocol, change the queue, or
// lose the connection, which leaves the transport without a loop. Code that continues after such a
// call reads all state again.

void pause_protocol_if_full(SocketTransportObject* transport) noexcept {
    if (transport->protocol_paused || queued(transport) <= transport->water_marks.high ||
        transport->protocol == nullptr) {
        return;
    }
    transport->protocol_paused = true;
    const Ref protocol = Ref::borrow(transport->protocol);
    if (transport->native != nullptr) {
        transport->native->pause_writing(protocol.get());
        return;
    }
    const Ref result(call_protocol(transport, transport->loop->state->name_pause_writing));
    if (!result) {
        report_raised(transport->loop, "protocol.pause_writing() failed", as_object(transport),
                      transport->protocol);
    }
}

void resume_protocol_if_drained(SocketTransportObject* transport) noexcept {
    if (!transport->protocol_paused || queued(transport) > transport->water_marks.low ||
        transport->protocol == nullptr) {
        return;
    }
    transport->protocol_paused = false;
    if (transport->native != nullptr) {
        const ProtocolContext context(transport->context);
        const Ref protocol = Ref::borrow(transport->protocol);
        transport->native->resume_writing(protocol.get());
        return;
    }
    const Ref result(call_protocol(transport, transport->loop->state->name_resume_writing));
    if (!result) {
        report_raised(transport->loop, "protocol.resume_writing() failed", as_object(transport),
                      transport->protocol);
    }
}

/// Completes the future of a sendfile. The future stays set until `_reset_empty_waiter`; writes are
/// refused until then.
void finish_empty_waiter(SocketTransportObject* transport) noexcept {
    const Ref waiter = Ref::borrow(transport->empty_waiter);
    const ModuleState* state = state_of(Py_TYPE(transport));
    if (waiter && !Ref(PyObject_CallMethodOneArg(waiter.get(), state->name_set_result, Py_None))) {
        report_raised(transport->loop, "Fatal error on transport", as_object(transport), nullptr);
    }
}

/// Completes the work that waited for an empty queue.
void finish_sending(SocketTransportObject* transport) noexcept {
    update_interest(transport);
    finish_empty_waiter(transport);
    if (transport->closing) {
        lose_connection(transport);
    } else if (transport->eof_sent && transport->fd >= 0) {
        ::shutdown(transport->fd, SHUT_WR);
    }
}

/// Sends from the queue until it is empty or the socket is full. False when the connection failed.
bool send_queued(SocketTransportObject* transport) noexcept {
    std::array<iovec, max_chunks_per_send> chunks;
    while (queued(transport) > 0) {
        msghdr message{};
        message.msg_iov = chunks.data();
        message.msg_iovlen =
            static_cast<std::size_t>(transport->queue->fill(chunks.data(), max_chunks_per_send));
        const ssize_t count = ::sendmsg(transport->fd, &message, send_flags);
        if (count < 0) {
            if (would_block(errno)) {
                return true;
            }
            fail_with_errno(transport, errno, "Fatal write error on socket transport");
            return false;
        }
        std::size_t offered = 0;
        for (std::size_t i = 0; i < message.msg_iovlen; ++i) {
            offered += chunks[i].iov_len;
        }
        transport->queue->consume(static_cast<std::size_t>(count));
        if (static_cast<std::size_t>(count) < offered) {
            return true;
        }
    }
    return true;
}

void refuse_data(PyObject* data) noexcept {
    PyErr_Format(PyExc_TypeError, "data argument must be a bytes-like object, not '%s'",
                 Py_TYPE(data)->tp_name);
}

/// The `bytes` of `data` as an immutable object: `data` itself, or a copy of `bytes[offset:]`, for
/// which `offset` becomes 0.
Ref own_bytes(PyObject* data, std::string_view bytes, std::size_t& offset) noexcept {
    if (PyBytes_CheckExact(data)) {
        return Ref::borrow(data);
    }
    Ref copy(PyBytes_FromStringAndSize(bytes.data() + offset,
                                       static_cast<Py_ssize_t>(bytes.size() - offset)));
    offset = 0;
    return copy;
}

/// A bytes object for one chunk of writelines(): the chunk itself, or a copy. Null with TypeError
/// set.
PyObject* bytes_of(PyObject* data) noexcept {
    if (PyBytes_CheckExact(data)) {
        return Py_NewRef(data);
    }
    if (PyObject_CheckBuffer(data) == 0) {
        refuse_data(data);
        return nullptr;
    }
    return PyBytes_FromObject(data);
}

bool enqueue(SocketTransportObject* transport, PyObject* bytes, std::size_t offset) noexcept {
    try {
        if (transport->queue == nullptr) {
            transport->queue = new WriteQueue;
        }
        transport->queue->append(bytes, offset);
        return true;
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
}

bool may_write(SocketTransportObject* transport, const char* method) noexcept {
    if (transport->eof_sent) {
        PyErr_Format(PyExc_RuntimeError, "Cannot call %s() after write_eof()", method);
        return false;
    }
    if (transport->empty_waiter != nullptr) {
        PyErr_Format(PyExc_RuntimeError, "unable to %s; sendfile is in progress", method);
        return false;
    }
    return true;
}

/// Whether the connection takes data.
bool is_writable(const SocketTransportObject* transport) noexcept {
    return transport->lost == 0 && transport->fd >= 0;
}

/// Counts a write after the connection was lost. Warns as asyncio does.
bool note_lost_write(SocketTransportObject* transport) noexcept {
    constexpr unsigned log_threshold = 5;
    if (transport->lost >= log_threshold &&
        !upcall(state_of(Py_TYPE(transport)), "warn_of_lost_write", nullptr, 0)) {
        return false;
    }
    ++transport->lost;
    return true;
}

/// Sends as much as possible of the `bytes` of `data` at once and queues the rest. The transport
/// must not be lost. False with an exception set.
bool send_or_queue(SocketTransportObject* transport, PyObject* data,
                   std::string_view bytes) noexcept {
    std::size_t sent = 0;
    if (queued(transport) == 0) {
        const ssize_t count = ::send(transport->fd, bytes.data(), bytes.size(), send_flags);
        if (count >= 0) {
            sent = static_cast<std::size_t>(count);
        } else if (!would_block(errno)) {
            fail_with_errno(transport, errno, "Fatal write error on socket transport");
            return true;
        }
        if (sent == bytes.size()) {
            return true;
        }
    }
    const Ref owned = own_bytes(data, bytes, sent);
    if (!owned || !enqueue(transport, owned.get(), sent)) {
        return false;
    }
    update_interest(transport);
    pause_protocol_if_full(transport);
    return true;
}

} // namespace

void send_ready(SocketTransportObject* transport) noexcept {
    if (transport->file_sender != nullptr) { // nothing is queued: a sendfile refuses writes
        const Ref sender = Ref::borrow(transport->file_sender);
        if (!Ref(PyObject_CallNoArgs(sender.get()))) {
            fail_with_raised(transport, "Fatal write error on socket transport");
        }
        return;
    }
    if (!send_queued(transport)) {
        return;
    }
    resume_protocol_if_drained(transport); // may write, close or abort
    if (transport->lost == 0 && queued(transport) == 0) {
        finish_sending(transport);
    }
}

void send_copy(SocketTransportObject* transport, const char* data, std::size_t size) noexcept {
    if (transport->lost > 0 || transport->fd < 0 || transport->loop == nullptr) {
        return; // connection_lost reports it to the protocol
    }
    if (!send_or_queue(transport, Py_None, {data, size})) {
        fail_with_raised(transport, "Fatal write error on socket transport");
    }
}

PyObject* transport_write(PyObject* self, PyObject* data) {
    SocketTransportObject* transport = transport_of(self);
    if (!PyBytes_Check(data) && !PyByteArray_Check(data) && !PyMemoryView_Check(data)) {
        refuse_data(data);
        return nullptr;
    }
    if (!may_write(transport, "write")) {
        return nullptr;
    }
    if (PyBytes_CheckExact(data) && is_writable(transport)) { // no buffer export needed
        const std::string_view bytes(PyBytes_AS_STRING(data),
                                     static_cast<std::size_t>(PyBytes_GET_SIZE(data)));
        return bytes.empty() || send_or_queue(transport, data, bytes) ? Py_NewRef(Py_None)
                                                                      : nullptr;
    }
    BufferView view;
    if (!view.acquire(data, PyBUF_SIMPLE)) {
        if (!PyMemoryView_Check(data)) {
            return nullptr;
        }
        // A memoryview that is not contiguous: sends a contiguous copy.
        PyErr_Clear();
        const Ref flat(PyObject_CallMethod(data, "tobytes", nullptr));
        return flat ? transport_write(self, flat.get()) : nullptr;
    }
    if (view.size() == 0) {
        Py_RETURN_NONE;
    }
    // Checked again: a class's __buffer__ may have closed the connection.
    if (!may_write(transport, "write")) {
        return nullptr;
    }
    const bool done = is_writable(transport) ? send_or_queue(transport, data, view.bytes())
                                             : note_lost_write(transport);
    return done ? Py_NewRef(Py_None) : nullptr;
}

PyObject* transport_writelines(PyObject* self, PyObject* list_of_data) {
    SocketTransportObject* transport = transport_of(self);
    if (!may_write(transport, "writelines")) {
        return nullptr;
    }
    const Ref sequence(
        PySequence_Fast(list_of_data, "writelines() takes an iterable of bytes-like objects"));
    // A snapshot: exporting a chunk may change a list.
    const Ref chunks(sequence ? PySequence_Tuple(sequence.get()) : nullptr);
    if (!chunks) {
        return nullptr;
    }
    const Py_ssize_t count = PyTuple_GET_SIZE(chunks.get());
    if (count == 0) {
        Py_RETURN_NONE;
    }
    if (!is_writable(transport)) {
        return note_lost_write(transport) ? Py_NewRef(Py_None) : nullptr;
    }
    // All or nothing: a bad chunk is found before the first one is queued.
    const Ref owned(PyTuple_New(count));
    for (Py_ssize_t i = 0; owned && i < count; ++i) {
        PyObject* bytes = bytes_of(PyTuple_GET_ITEM(chunks.get(), i));
        if (bytes == nullptr) {
            return nullptr;
        }
        PyTuple_SET_ITEM(owned.get(), i, bytes);
    }
    // Checked again: exporting the chunks may have closed the connection.
    if (!owned || !may_write(transport, "writelines")) {
        return nullptr;
    }
    if (!is_writable(transport)) {
        return note_lost_write(transport) ? Py_NewRef(Py_None) : nullptr;
    }
    const bool was_empty = queued(transport) == 0;
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* bytes = PyTuple_GET_ITEM(owned.get(), i);
        if (PyBytes_GET_SIZE(bytes) > 0 && !enqueue(transport, bytes, 0)) {
            return nullptr;
        }
    }
    if (queued(transport) > 0) {
        if (was_empty && !send_queued(transport)) {
            Py_RETURN_NONE;
        }
        update_interest(transport);
        pause_protocol_if_full(transport);
    }
    Py_RETURN_NONE;
}

PyObject* transport_write_eof(PyObject* self, PyObject* /*unused*/) {
    SocketTransportObject* transport = transport_of(self);
    if (!transport->closing && !transport->eof_sent) {
        transport->eof_sent = true;
        if (queued(transport) == 0 && transport->fd >= 0 &&
            ::shutdown(transport->fd, SHUT_WR) != 0) {
            return PyErr_SetFromErrno(PyExc_OSError); // the peer has reset: ENOTCONN
        }
    }
    Py_RETURN_NONE;
}

PyObject* transport_set_write_buffer_limits(PyObject* self, PyObject* arguments,
                                            PyObject* keywords) {
    WaterMarks marks{};
    if (!WaterMarks::parse(marks, arguments, keywords, "|OO:set_write_buffer_limits",
                           default_high_water)) {
        return nullptr;
    }
    SocketTransportObject* transport = transport_of(self);
    transport->water_marks = marks;
    if (transport->loop != nullptr) {
        pause_protocol_if_full(transport);
    }
    Py_RETURN_NONE;
}

} // namespace penstock::python
