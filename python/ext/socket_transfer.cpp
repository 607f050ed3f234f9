// The bytes of a socket transport: reading, writing, flow control.

#include "asyncio_reader.hpp"
#include "received_bytes.hpp"
#include "socket_transport.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>

#include <sys/socket.h>

namespace penstock::python {

namespace {

constexpr int send_flags = MSG_NOSIGNAL | MSG_DONTWAIT;

/// Chunks handed to one sendmsg(2); IOV_MAX is 1024, but a socket buffer is full long before.
constexpr int max_chunks_per_send = 64;

bool would_block(int error) noexcept {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

void close_unless_kept_open(SocketTransportObject* transport, bool keep_open) noexcept {
    if (keep_open) {
        transport->eof_seen = true;
        update_interest(transport);
    } else if (!close_gracefully(transport)) {
        PyErr_WriteUnraisable(as_object(transport));
    }
}

void receive_end(SocketTransportObject* transport) noexcept {
    if (transport->native != nullptr) {
        const ProtocolContext context(transport->context);
        close_unless_kept_open(transport, transport->native->eof_received(transport->protocol));
        return;
    }
    const Ref keep_open(call_protocol(transport, transport->loop->state->name_eof_received));
    if (!keep_open) {
        fail_with_raised(transport, "Fatal error: protocol.eof_received() call failed.");
        return;
    }
    const int truth = PyObject_IsTrue(keep_open.get());
    if (truth < 0) {
        fail_with_raised(transport, "Fatal error: protocol.eof_received() call failed.");
    } else {
        close_unless_kept_open(transport, truth != 0);
    }
}

/// Hands what was received to a protocol that is native too.
void receive_for_native(SocketTransportObject* transport) noexcept {
    char* buffer = transport->loop->read_buffer;
    const ssize_t count = ::recv(transport->fd, buffer, LoopObject::read_buffer_size, 0);
    if (count > 0) {
        const ProtocolContext context(transport->context);
        transport->native->data_received(transport->protocol, buffer,
                                         static_cast<std::size_t>(count));
    } else if (count == 0) {
        receive_end(transport);
    } else if (!would_block(errno)) {
        fail_with_errno(transport, errno, "Fatal read error on socket transport");
    }
}

/// Hands what was received to a stream reader, with no bytes object in between.
void feed_stream(SocketTransportObject* transport, std::size_t size) noexcept {
    LoopObject* loop = transport->loop;
    const bool fed =
        transport->stream != nullptr
            ? feed_from_dispatcher(transport->stream, loop->read_buffer, size)
            : feed_asyncio_reader(loop->state, transport->asyncio_reader, loop->read_buffer, size);
    if (!fed) {
        fail_with_raised(transport, "Fatal error: protocol.data_received() call failed.");
    }
}

void receive_for_stream(SocketTransportObject* transport) noexcept {
    const ssize_t count =
        ::recv(transport->fd, transport->loop->read_buffer, LoopObject::read_buffer_size, 0);
    if (count > 0) {
        feed_stream(transport, static_cast<std::size_t>(count));
    } else if (count == 0) {
        receive_end(transport);
    } else if (!would_block(errno)) {
        fail_with_errno(transport, errno, "Fatal read error on socket transport");
    }
}

void receive_data(SocketTransportObject* transport) noexcept {
    const ReceivedBytes received(transport->loop, transport->fd, transport->read_hint);
    if (received.count() < 0) {
        if (!would_block(received.error())) {
            fail_with_errno(transport, received.error(), "Fatal read error on socket transport");
        }
        return;
    }
    if (received.count() == 0) {
        receive_end(transport);
        return;
    }
    transport->read_hint = received.next_hint();
    PyObject* result = nullptr;
    if (received.data() != nullptr) {
        const ProtocolContext context(transport->context);
        PyObject* stack[2] = {nullptr, received.data()};
        result = PyObject_Vectorcall(transport->data_received, stack + 1,
                                     1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
    }
    if (result == nullptr) {
        fail_with_raised(transport, "Fatal error: protocol.data_received() call failed.");
        return;
    }
    Py_DECREF(result);
}

/// Reads into the buffer of a BufferedProtocol. The buffer stays exported for the read only.
void receive_into_buffer(SocketTransportObject* transport) noexcept {
    static constexpr const char* get_buffer_failed =
        "Fatal error: protocol.get_buffer() call failed.";
    ssize_t count = 0;
    int error = 0;
    {
        const ProtocolContext context(transport->context);
        const Ref size_hint(PyLong_FromLong(-1));
        PyObject* stack[2] = {nullptr, size_hint.get()};
        const Ref target(size_hint
                             ? PyObject_Vectorcall(transport->data_received, stack + 1,
                                                   1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr)
                             : nullptr);
        Py_buffer buffer;
        if (!target || PyObject_GetBuffer(target.get(), &buffer, PyBUF_WRITABLE) != 0) {
            count = -1;
        } else if (buffer.len == 0) {
            PyBuffer_Release(&buffer);
            PyErr_SetString(PyExc_RuntimeError, "get_buffer() returned an empty buffer");
            count = -1;
        } else {
            count = ::recv(transport->fd, buffer.buf, static_cast<std::size_t>(buffer.len), 0);
            error = count < 0 ? errno : 0;
            PyBuffer_Release(&buffer);
        }
    }
    if (error != 0) {
        if (!would_block(error)) {
            fail_with_errno(transport, error, "Fatal read error on socket transport");
        }
        return;
    }
    if (count < 0) {
        fail_with_raised(transport, get_buffer_failed);
        return;
    }
    if (count == 0) {
        receive_end(transport);
        return;
    }
    PyObject* result = nullptr;
    {
        const ProtocolContext context(transport->context);
        const Ref size(PyLong_FromSsize_t(count));
        PyObject* stack[2] = {nullptr, size.get()};
        result = size ? PyObject_Vectorcall(transport->buffer_updated, stack + 1,
                                            1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr)
                      : nullptr;
    }
    if (result == nullptr) {
        fail_with_raised(transport, "Fatal error: protocol.buffer_updated() call failed.");
        return;
    }
    Py_DECREF(result);
}

void pause_protocol_if_full(SocketTransportObject* transport) noexcept {
    if (transport->protocol_paused || queued(transport) <= transport->water_marks.high ||
        transport->protocol == nullptr) {
        return;
    }
    transport->protocol_paused = true;
    if (transport->native != nullptr) {
        transport->native->pause_writing(transport->protocol);
        return;
    }
    const Ref result(
        PyObject_CallMethodNoArgs(transport->protocol, transport->loop->state->name_pause_writing));
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
        transport->native->resume_writing(transport->protocol);
        return;
    }
    const Ref result(call_protocol(transport, transport->loop->state->name_resume_writing));
    if (!result) {
        report_raised(transport->loop, "protocol.resume_writing() failed", as_object(transport),
                      transport->protocol);
    }
}

/// The future stays in place until `_reset_empty_waiter`: writes are refused until then.
void finish_empty_waiter(SocketTransportObject* transport) noexcept {
    const Ref waiter = Ref::borrow(transport->empty_waiter);
    if (waiter && !Ref(PyObject_CallMethodOneArg(
                      waiter.get(), transport->loop->state->name_set_result, Py_None))) {
        report_raised(transport->loop, "Fatal error on transport", as_object(transport), nullptr);
    }
}

/// Everything that waited has left.
void finish_sending(SocketTransportObject* transport) noexcept {
    update_interest(transport);
    finish_empty_waiter(transport);
    if (transport->closing) {
        lose_connection(transport);
    } else if (transport->eof_sent) {
        ::shutdown(transport->fd, SHUT_WR);
    }
}

/// Sends from the queue; false when the connection failed.
bool send_queued(SocketTransportObject* transport) noexcept {
    std::array<iovec, max_chunks_per_send> chunks;
    msghdr message{};
    message.msg_iov = chunks.data();
    message.msg_iovlen =
        static_cast<std::size_t>(transport->queue->fill(chunks.data(), max_chunks_per_send));
    const ssize_t count = ::sendmsg(transport->fd, &message, send_flags);
    if (count >= 0) {
        transport->queue->consume(static_cast<std::size_t>(count));
        return true;
    }
    if (would_block(errno)) {
        return true;
    }
    fail_with_errno(transport, errno, "Fatal write error on socket transport");
    return false;
}

void send_ready(SocketTransportObject* transport) noexcept {
    if (!send_queued(transport)) {
        return;
    }
    resume_protocol_if_drained(transport); // may write, close or abort
    if (transport->lost == 0 && queued(transport) == 0) {
        finish_sending(transport);
    }
}

void refuse_data(PyObject* data) noexcept {
    PyErr_Format(PyExc_TypeError, "data argument must be a bytes-like object, not '%s'",
                 Py_TYPE(data)->tp_name);
}

/// `data` as bytes that nobody else can change: itself, or a copy of `data[offset:]`.
Ref own_bytes(PyObject* data, const Py_buffer& view, std::size_t& offset) noexcept {
    if (PyBytes_CheckExact(data)) {
        return Ref::borrow(data);
    }
    Ref copy(PyBytes_FromStringAndSize(static_cast<const char*>(view.buf) + offset,
                                       view.len - static_cast<Py_ssize_t>(offset)));
    offset = 0;
    return copy;
}

/// A bytes object for one chunk of writelines(): itself, or a copy. Null with TypeError set.
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

/// Counts a write that came after the connection was lost; warns as asyncio does.
bool note_lost_write(SocketTransportObject* transport) noexcept {
    constexpr unsigned log_threshold = 5;
    if (transport->lost >= log_threshold && transport->loop != nullptr &&
        !call_rare_path(transport->loop->state, "warn_of_lost_write", nullptr, 0)) {
        return false;
    }
    ++transport->lost;
    return true;
}

/// Sends what it can of a buffer at once and queues the rest. False with an exception set.
bool send_or_queue(SocketTransportObject* transport, PyObject* data,
                   const Py_buffer& view) noexcept {
    std::size_t sent = 0;
    const auto length = static_cast<std::size_t>(view.len);
    if (queued(transport) == 0) {
        const ssize_t count = ::send(transport->fd, view.buf, length, send_flags);
        if (count >= 0) {
            sent = static_cast<std::size_t>(count);
        } else if (!would_block(errno)) {
            fail_with_errno(transport, errno, "Fatal write error on socket transport");
            return true;
        }
        if (sent == length) {
            return true;
        }
    }
    const Ref bytes = own_bytes(data, view, sent);
    if (!bytes || !enqueue(transport, bytes.get(), sent)) {
        return false;
    }
    update_interest(transport);
    pause_protocol_if_full(transport);
    return true;
}

} // namespace

void on_socket_ready(io::Watch& watch, std::uint32_t events) {
    auto* transport = reinterpret_cast<SocketTransportObject*>(
        reinterpret_cast<char*>(&watch) - offsetof(SocketTransportObject, watch));
    const Ref alive = Ref::borrow(as_object(transport));
    const std::uint32_t interest = watch.interest;
    constexpr std::uint32_t trouble = io::hung_up | io::failed;
    if ((events & (io::readable | trouble)) != 0 && (interest & io::readable) != 0) {
        if (transport->buffered_protocol) {
            receive_into_buffer(transport);
        } else if (transport->stream != nullptr || transport->asyncio_reader != nullptr) {
            receive_for_stream(transport);
        } else if (transport->native != nullptr) {
            receive_for_native(transport);
        } else {
            receive_data(transport);
        }
    }
    if ((events & (io::writable | trouble)) != 0 && (interest & io::writable) != 0 &&
        transport->lost == 0 && queued(transport) > 0 &&
        transport->loop->pending_exception == nullptr) {
        send_ready(transport);
    }
}

void send_copy(SocketTransportObject* transport, const char* data, std::size_t size) noexcept {
    if (transport->lost > 0 || transport->fd < 0 || transport->loop == nullptr) {
        return; // the protocol is told of the loss
    }
    Py_buffer view{};
    view.buf = const_cast<char*>(data);
    view.len = static_cast<Py_ssize_t>(size);
    if (!send_or_queue(transport, Py_None, view)) {
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
    const bool writable = transport->lost == 0 && transport->fd >= 0;
    if (PyBytes_CheckExact(data) && writable) {
        Py_buffer plain{}; // the usual case needs no export
        plain.buf = PyBytes_AS_STRING(data);
        plain.len = PyBytes_GET_SIZE(data);
        return plain.len == 0 || send_or_queue(transport, data, plain) ? Py_NewRef(Py_None)
                                                                       : nullptr;
    }
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) != 0) {
        if (!PyMemoryView_Check(data)) {
            return nullptr;
        }
        // A memoryview that is not contiguous: send a flat copy.
        PyErr_Clear();
        const Ref flat(PyObject_CallMethod(data, "tobytes", nullptr));
        return flat ? transport_write(self, flat.get()) : nullptr;
    }
    bool done = true;
    if (view.len > 0) {
        done = writable ? send_or_queue(transport, data, view) : note_lost_write(transport);
    }
    PyBuffer_Release(&view);
    if (!done) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

PyObject* transport_writelines(PyObject* self, PyObject* list_of_data) {
    SocketTransportObject* transport = transport_of(self);
    if (!may_write(transport, "writelines")) {
        return nullptr;
    }
    const Ref chunks(
        PySequence_Fast(list_of_data, "writelines() takes an iterable of bytes-like objects"));
    if (!chunks) {
        return nullptr;
    }
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(chunks.get());
    if (count == 0) {
        Py_RETURN_NONE;
    }
    if (transport->lost > 0 || transport->fd < 0) {
        return note_lost_write(transport) ? Py_NewRef(Py_None) : nullptr;
    }
    // All or nothing: whatever is wrong with a chunk shows before the first one is queued.
    const Ref owned(PyTuple_New(count));
    for (Py_ssize_t i = 0; owned && i < count; ++i) {
        PyObject* bytes = bytes_of(PySequence_Fast_GET_ITEM(chunks.get(), i));
        if (bytes == nullptr) {
            return nullptr;
        }
        PyTuple_SET_ITEM(owned.get(), i, bytes);
    }
    if (!owned) {
        return nullptr;
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
        if (queued(transport) == 0 && transport->fd >= 0) {
            ::shutdown(transport->fd, SHUT_WR);
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
