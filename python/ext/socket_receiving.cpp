// What a socket transport receives.

#include "asyncio_reader.hpp"
#include "buffer_view.hpp"
#include "callback_scope.hpp"
#include "read_buffer.hpp"
#include "received_bytes.hpp"
#include "slow_callback.hpp"
#include "socket_transport.hpp"

#include <cerrno>

#include <sys/socket.h>

namespace penstock::python {

namespace {

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
        const Ref protocol = Ref::borrow(transport->protocol);
        close_unless_kept_open(transport, transport->native->eof_received(protocol.get()));
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

/// recv(2), with errno; a buffer without memory is ENOMEM.
ssize_t receive_into(SocketTransportObject* transport, const ReadBuffer& buffer) noexcept {
    if (buffer.data() == nullptr) {
        errno = ENOMEM;
        return -1;
    }
    return ::recv(transport->fd, buffer.data(), ReadBuffer::size, 0);
}

/// Hands what was received to a protocol that is native too.
void receive_for_native(SocketTransportObject* transport) noexcept {
    const ReadBuffer buffer(transport->loop);
    const ssize_t count = receive_into(transport, buffer);
    if (count > 0) {
        const ProtocolContext context(transport->context);
        const Ref protocol = Ref::borrow(transport->protocol);
        transport->native->data_received(protocol.get(), buffer.data(),
                                         static_cast<std::size_t>(count));
    } else if (count == 0) {
        receive_end(transport);
    } else if (!would_block(errno)) {
        fail_with_errno(transport, errno, "Fatal read error on socket transport");
    }
}

/// Hands what was received to a stream reader, with no bytes object in between. (Tried: to receive into
/// a bytes object that a read then gets as it is. The copy saved was not to be seen at 10 KiB, and
/// messages of 100 KiB came in more pieces for 7 % more CPU.)
void feed_stream(SocketTransportObject* transport, const char* data, std::size_t size) noexcept {
    // Owned: the task that is stepped may set another protocol.
    const Ref stream = Ref::borrow(as_object(transport->stream));
    const Ref reader = Ref::borrow(transport->asyncio_reader);
    const bool fed =
        stream
            ? feed_from_dispatcher(reinterpret_cast<StreamReaderObject*>(stream.get()), data, size)
            : feed_asyncio_reader(transport->loop->state, reader.get(), data, size,
                                  Feeding::where_no_task_runs);
    if (!fed) {
        fail_with_raised(transport, "Fatal error: protocol.data_received() call failed.");
    }
}

void receive_for_stream(SocketTransportObject* transport) noexcept {
    const ReadBuffer buffer(transport->loop);
    const ssize_t count = receive_into(transport, buffer);
    if (count > 0) {
        feed_stream(transport, buffer.data(), static_cast<std::size_t>(count));
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
    Ref result;
    if (received.data() != nullptr) {
        const ProtocolContext context(transport->context);
        result = call_method(transport->protocol, transport->loop->state->name_data_received,
                             received.data());
    }
    if (!result) {
        fail_with_raised(transport, "Fatal error: protocol.data_received() call failed.");
    }
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
        const Ref target =
            size_hint ? call_method(transport->protocol, transport->loop->state->name_get_buffer,
                                    size_hint.get())
                      : Ref();
        BufferView buffer;
        if (!target || !buffer.acquire(target.get(), PyBUF_WRITABLE)) {
            count = -1;
        } else if (buffer.size() == 0) {
            PyErr_SetString(PyExc_RuntimeError, "get_buffer() returned an empty buffer");
            count = -1;
        } else {
            count =
                ::recv(transport->fd, buffer.data(), static_cast<std::size_t>(buffer.size()), 0);
            error = count < 0 ? errno : 0;
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
    Ref result;
    {
        const ProtocolContext context(transport->context);
        const Ref size(PyLong_FromSsize_t(count));
        if (size) {
            result = call_method(transport->protocol, transport->loop->state->name_buffer_updated,
                                 size.get());
        }
    }
    if (!result) {
        fail_with_raised(transport, "Fatal error: protocol.buffer_updated() call failed.");
    }
}

} // namespace

void on_socket_ready(io::Watch& watch, std::uint32_t events) {
    auto* transport = reinterpret_cast<SocketTransportObject*>(
        reinterpret_cast<char*>(&watch) - offsetof(SocketTransportObject, watch));
    const Ref alive = Ref::borrow(as_object(transport));
    const SlowCallbackWatch slowness(transport->loop, as_object(transport));
    const CallbackScope scope(transport->loop);
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

} // namespace penstock::python
