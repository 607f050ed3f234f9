// Receiving on a socket transport: one receive path for each kind of protocol.

#include "asgi/http_connection.hpp"
#include "core/slow_callback.hpp"
#include "net/read_buffer.hpp"
#include "net/received_bytes.hpp"
#include "net/socket_transport.hpp"
#include "shared/buffer_view.hpp"
#include "streams/asyncio_stream_feed.hpp"
#include "web/websocket_connection.hpp"

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

/// Handles a read that brought no data: the end of the stream (`count` 0) or an error.
void receive_nothing(SocketTransportObject* transport, ssize_t count, int error) noexcept {
    if (count == 0) {
        receive_end(transport);
    } else if (!would_block(error)) {
        fail_with_errno(transport, error, "Fatal read error on socket transport");
    }
}

/// Reads into the loop's buffer and passes the bytes to `deliver`, which copies or consumes them.
template <void (*deliver)(SocketTransportObject*, const char*, std::size_t) noexcept>
void receive_through_buffer(SocketTransportObject* transport) noexcept {
    const ReadBuffer buffer(transport->loop);
    if (buffer.data() == nullptr) {
        receive_nothing(transport, -1, ENOMEM);
        return;
    }
    const ssize_t count = ::recv(transport->fd, buffer.data(), ReadBuffer::size, 0);
    if (count > 0) {
        deliver(transport, buffer.data(), static_cast<std::size_t>(count));
    } else {
        receive_nothing(transport, count, errno);
    }
}

void deliver_to_native(SocketTransportObject* transport, const char* data,
                       std::size_t size) noexcept {
    const ProtocolContext context(transport->context);
    const Ref protocol = Ref::borrow(transport->protocol);
    transport->native->data_received(protocol.get(), data, size);
}

constexpr const char* data_received_failed = "Fatal error: protocol.data_received() call failed.";

/// Feeds a native stream reader, without a bytes object in between. (Tried: receiving into the
/// bytes object that a read then returns. The saved copy was not measurable at 10 KiB, and messages
/// of 100 KiB arrived in more pieces for 7 % more CPU.)
void deliver_to_stream(SocketTransportObject* transport, const char* data,
                       std::size_t size) noexcept {
    // Owned: the task that is stepped may set another protocol.
    const Ref stream = Ref::borrow(as_object(transport->stream));
    auto* reader = reinterpret_cast<StreamReaderObject*>(stream.get());
    DirectSteps& steps = transport->direct_steps;
    const bool fed = steps.allowed()
                         ? steps.timed([&] { return feed_from_dispatcher(reader, data, size); })
                         : feed_later(reader, data, size);
    if (!fed) {
        fail_with_raised(transport, data_received_failed);
    }
}

/// Feeds the reader of one of asyncio's own streams.
void deliver_to_asyncio_reader(SocketTransportObject* transport, const char* data,
                               std::size_t size) noexcept {
    const Ref reader = Ref::borrow(transport->asyncio_reader); // as above
    DirectSteps& steps = transport->direct_steps;
    const Feeding feeding = steps.allowed() ? Feeding::from_dispatcher : Feeding::anywhere;
    if (!steps.timed([&] {
            return feed_asyncio_reader(transport->loop->state, reader.get(), data, size, feeding);
        })) {
        fail_with_raised(transport, data_received_failed);
    }
}

/// Decodes the frames of a WebSocket connection in the read buffer, which unmasks them there.
void receive_frames(SocketTransportObject* transport) noexcept {
    const ReadBuffer buffer(transport->loop);
    if (buffer.data() == nullptr) {
        receive_nothing(transport, -1, ENOMEM);
        return;
    }
    const ssize_t count = ::recv(transport->fd, buffer.data(), ReadBuffer::size, 0);
    if (count <= 0) {
        receive_nothing(transport, count, errno);
        return;
    }
    const Ref protocol = Ref::borrow(transport->protocol);
    DirectSteps& steps = transport->direct_steps;
    const Feeding feeding = steps.allowed() ? Feeding::from_dispatcher : Feeding::anywhere;
    if (!steps.timed([&] {
            return feed_websocket(websocket_of(protocol.get()), buffer.data(),
                                  static_cast<std::size_t>(count), feeding);
        })) {
        fail_with_raised(transport, data_received_failed);
    }
}

/// Passes requests to the connection of an ASGI server, which runs the application.
void deliver_to_http(SocketTransportObject* transport, const char* data,
                     std::size_t size) noexcept {
    const Ref protocol = Ref::borrow(transport->protocol);
    DirectSteps& steps = transport->direct_steps;
    const Feeding feeding = steps.allowed() ? Feeding::from_dispatcher : Feeding::anywhere;
    if (!steps.timed([&] { return feed_http(http_of(protocol.get()), data, size, feeding); })) {
        fail_with_raised(transport, data_received_failed);
    }
}

/// Calls data_received with a bytes object.
void receive_bytes(SocketTransportObject* transport) noexcept {
    const ReceivedBytes received(transport->loop, transport->fd, transport->read_hint);
    if (received.count() <= 0) {
        receive_nothing(transport, received.count(), received.error());
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
        fail_with_raised(transport, data_received_failed);
    }
}

/// Reads into the buffer of a BufferedProtocol. The buffer is exported for the read only.
void receive_into_protocols_buffer(SocketTransportObject* transport) noexcept {
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
    if (count < 0 && error == 0) {
        fail_with_raised(transport, get_buffer_failed);
        return;
    }
    if (count <= 0) {
        receive_nothing(transport, count, error);
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

ReceivePath receive_path_for(const SocketTransportObject* transport, bool buffered) noexcept {
    if (PyObject_TypeCheck(transport->protocol,
                           state_of(Py_TYPE(transport))->websocket_connection_type) != 0) {
        return &receive_frames;
    }
    if (PyObject_TypeCheck(transport->protocol,
                           state_of(Py_TYPE(transport))->http_connection_type) != 0) {
        return &receive_through_buffer<&deliver_to_http>;
    }
    return buffered                       ? &receive_into_protocols_buffer
           : transport->stream != nullptr ? &receive_through_buffer<&deliver_to_stream>
           : transport->asyncio_reader != nullptr
               ? &receive_through_buffer<&deliver_to_asyncio_reader>
           : transport->native != nullptr ? &receive_through_buffer<&deliver_to_native>
                                          : &receive_bytes;
}

void on_socket_ready(io::Watch& watch, std::uint32_t events) {
    SocketTransportObject* transport = &io::owner_of<&SocketTransportObject::watch>(watch);
    const Ref alive = Ref::borrow(as_object(transport));
    const SlowCallbackWatch slowness(transport->loop, as_object(transport));
    const std::uint32_t interest = watch.interest;
    constexpr std::uint32_t trouble = io::hung_up | io::failed;
    if ((events & (io::readable | trouble)) != 0 && (interest & io::readable) != 0) {
        transport->receive(transport);
    }
    if ((events & (io::writable | trouble)) != 0 && (interest & io::writable) != 0 &&
        transport->lost == 0 && (queued(transport) > 0 || transport->file_sender != nullptr) &&
        transport->loop->pending_exception == nullptr) {
        send_ready(transport);
    }
}

} // namespace penstock::python
