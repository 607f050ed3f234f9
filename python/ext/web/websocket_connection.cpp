// The protocol of a WebSocket connection: decoding, the queue, the calls of a receiver.

#include "web/websocket_connection.hpp"

#include "web/websocket_codec.hpp"

#include "net/socket_transport.hpp"
#include "shared/buffer_view.hpp"

#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <structmember.h>

namespace penstock::python {

using websocket::MessageDecoder;
using websocket::Opcode;

namespace {

/// Reading pauses also beyond this many bytes in the queue.
constexpr std::size_t maximum_queued_bytes = std::size_t{4} << 20;

std::size_t size_of(PyObject* message) noexcept {
    if (PyTuple_Check(message)) {
        message = PyTuple_GET_ITEM(message, 1);
    }
    return static_cast<std::size_t>(PyUnicode_Check(message) ? PyUnicode_GET_LENGTH(message)
                                                             : PyBytes_GET_SIZE(message));
}

PyObject* make_part(const MessageDecoder::Event& event) noexcept {
    const Ref data(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(event.payload.data()),
                                             static_cast<Py_ssize_t>(event.payload.size())));
    return data ? PyTuple_Pack(3, event.kind == MessageDecoder::Kind::text ? Py_True : Py_False,
                               data.get(), event.last ? Py_True : Py_False)
                : nullptr;
}

PyObject* make_message(const MessageDecoder::Event& event) noexcept {
    const auto* data = reinterpret_cast<const char*>(event.payload.data());
    const auto size = static_cast<Py_ssize_t>(event.payload.size());
    if (event.kind == MessageDecoder::Kind::binary) {
        return PyBytes_FromStringAndSize(data, size);
    }
    if (!event.ascii || size == 0) {
        return PyUnicode_DecodeUTF8(data, size, nullptr);
    }
    PyObject* text = PyUnicode_New(size, 127);
    if (text != nullptr) {
        std::memcpy(PyUnicode_1BYTE_DATA(text), data, static_cast<std::size_t>(size));
    }
    return text;
}

bool call_transport(WebSocketConnectionObject* connection, const char* method) noexcept {
    const Ref transport = Ref::borrow(connection->transport);
    return !transport || Ref(PyObject_CallMethod(transport.get(), method, nullptr));
}

bool is_full(const WebSocketCodec& codec) noexcept {
    return codec.maximum_queued != 0 && (codec.messages.size() > codec.maximum_queued ||
                                         codec.queued_bytes > maximum_queued_bytes);
}

/// Calls a method of the Python half with a code, or -1 for none, and bytes. False with an
/// exception set.
bool notify(WebSocketConnectionObject* connection, const char* method, int code, const char* data,
            std::size_t size) noexcept {
    const Ref bytes(PyBytes_FromStringAndSize(data, static_cast<Py_ssize_t>(size)));
    return bytes &&
           Ref(PyObject_CallMethod(as_object(connection), method, "iO", code, bytes.get()));
}

/// Ends `for_each`: it returns, or raises the exception that is set. False with an exception set.
bool end_receiver(WebSocketConnectionObject* connection) noexcept {
    const Ref exception = take_exception();
    Py_CLEAR(connection->receiver);
    Py_CLEAR(connection->receiver_context);
    return static_cast<bool>(Ref(PyObject_CallMethod(as_object(connection), "_on_receiver_end", "O",
                                                     exception ? exception.get() : Py_None)));
}

/// Whether the receiver may be called: it is not while the peer does not read what it writes.
bool receiver_is_ready(const WebSocketConnectionObject* connection) noexcept {
    return connection->receiver != nullptr && !connection->calling_receiver &&
           !connection->writing_paused;
}

/// Calls the receiver with one message. False with an exception set.
bool call_receiver(WebSocketConnectionObject* connection, PyObject* message) noexcept {
    const Ref receiver = Ref::borrow(connection->receiver);
    Ref result;
    connection->calling_receiver = true;
    {
        const ProtocolContext context(connection->receiver_context);
        result = Ref(PyObject_CallOneArg(receiver.get(), message));
    }
    connection->calling_receiver = false;
    if (result) {
        return true;
    }
    // Its task has left `for_each` meanwhile, or the exception is the loop's to raise. A
    // CancelledError, for example of a future's result, would otherwise end the transport.
    if (connection->receiver != receiver.get() || PyErr_ExceptionMatches(PyExc_SystemExit) != 0 ||
        PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0) {
        return false;
    }
    return end_receiver(connection);
}

/// Passes the queue to the receiver. False with an exception set.
bool call_receiver_for_queue(WebSocketConnectionObject* connection) noexcept {
    while (receiver_is_ready(connection) && has_message(connection)) {
        const Ref message(take_message(connection));
        if (!message || !call_receiver(connection, message.get())) {
            return false;
        }
    }
    return connection->receiver == nullptr || connection->calling_receiver || !connection->ended ||
           has_message(connection) || end_receiver(connection);
}

/// Queues a part of a message for `recv_streaming`. False with an exception set.
bool queue_part(WebSocketConnectionObject* connection, const MessageDecoder::Event& event) {
    WebSocketCodec& codec = *connection->codec;
    const std::size_t size = event.payload.size();
    codec.parted_bytes = event.first ? size : codec.parted_bytes + size;
    if (codec.parted_bytes > codec.maximum_message) { // after decompression
        constexpr std::string_view reason = "message too big";
        return notify(connection, "_on_failure", websocket::close_code::message_too_big,
                      reason.data(), reason.size());
    }
    Ref part(make_part(event));
    if (!part) {
        return false;
    }
    codec.by_parts = !event.last; // one call of `recv_streaming` is for one message
    codec.queued_bytes += size;
    codec.messages.push_back(part.get());
    (void)part.release();
    return true;
}

/// Handles one event. False with an exception set.
bool handle(WebSocketConnectionObject* connection, const MessageDecoder::Event& event) {
    using Kind = MessageDecoder::Kind;
    WebSocketCodec& codec = *connection->codec;
    const auto* data = reinterpret_cast<const char*>(event.payload.data());
    const std::size_t size = event.payload.size();
    switch (event.kind) {
    case Kind::text:
    case Kind::binary: {
        // The peer's close frame is behind its messages, so reading may not pause any more.
        if (connection->closing && is_full(codec)) {
            return true;
        }
        if (codec.by_parts) {
            return queue_part(connection, event);
        }
        Ref message(make_message(event));
        if (!message) {
            return false;
        }
        if (receiver_is_ready(connection) && codec.messages.empty()) {
            return call_receiver(connection, message.get());
        }
        codec.queued_bytes += size_of(message.get());
        codec.messages.push_back(message.get());
        (void)message.release();
        return true;
    }
    case Kind::ping:
        if (connection->writing_paused) {
            codec.unanswered_ping.emplace(data, size);
            return true;
        }
        return connection->closing || send_frame(connection, Opcode::pong, event.payload, {});
    case Kind::pong:
        return notify(connection, "_on_pong", -1, data, size);
    case Kind::close:
        return notify(connection, "_on_close", event.code, data, size);
    case Kind::failed: {
        const websocket::Failure& failure = codec.decoder->failure();
        return notify(connection, "_on_failure", failure.code, failure.reason.data(),
                      failure.reason.size());
    }
    case Kind::incomplete:
        break;
    }
    return true;
}

/// Decodes all of `data`. False with an exception set.
bool decode(WebSocketConnectionObject* connection, std::span<std::byte> data) noexcept {
    connection->heard = true;
    if (connection->ended) {
        return true; // the peer has nothing to say that matters
    }
    try {
        // A call of the Python half may end the connection: all state is read again.
        while (connection->codec != nullptr && !connection->ended) {
            WebSocketCodec& codec = *connection->codec;
            const MessageDecoder::Event event =
                codec.by_parts ? codec.decoder->next_part(data) : codec.decoder->next(data);
            if (event.kind == MessageDecoder::Kind::incomplete) {
                break;
            }
            if (!handle(connection, event)) {
                return false;
            }
            if (event.kind == MessageDecoder::Kind::failed) {
                break;
            }
        }
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    } catch (const std::system_error& error) {
        PyErr_SetString(PyExc_OSError, error.what());
        return false;
    }
    if (connection->codec != nullptr && !connection->reading_paused && !connection->closing &&
        is_full(*connection->codec)) {
        connection->reading_paused = true;
        return call_transport(connection, "pause_reading");
    }
    return true;
}

bool may_complete(const WebSocketConnectionObject* connection) noexcept {
    return connection->waiting != nullptr && (has_message(connection) || connection->ended);
}

// ---- methods

PyObject* connection_new(PyTypeObject* type, PyObject* /*arguments*/, PyObject* /*keywords*/) {
    return type->tp_alloc(type, 0);
}

/// _start(loop, transport, client, max_size, queue_high, queue_low, deflate): `deflate` is None or
/// a tuple of this end's window bits and no_context_takeover, and the peer's.
PyObject* connection_start(PyObject* self, PyObject* arguments) {
    WebSocketConnectionObject* connection = websocket_of(self);
    PyObject* loop = nullptr;
    PyObject* transport = nullptr;
    int client = 0;
    unsigned long long maximum = 0;
    Py_ssize_t queue_high = 0;
    Py_ssize_t queue_low = 0;
    PyObject* deflate = nullptr;
    if (PyArg_ParseTuple(arguments, "OOpKnnO", &loop, &transport, &client, &maximum, &queue_high,
                         &queue_low, &deflate) == 0) {
        return nullptr;
    }
    if (connection->codec != nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "the connection was started before");
        return nullptr;
    }
    try {
        auto codec = std::make_unique<WebSocketCodec>();
        codec->role = client != 0 ? websocket::Role::client : websocket::Role::server;
        codec->maximum_queued = static_cast<std::size_t>(queue_high);
        codec->resumed_at = static_cast<std::size_t>(queue_low);
        websocket::MessageInflater* inflater = nullptr;
        if (deflate != Py_None) {
#ifdef PENSTOCK_HAS_DEFLATE
            int own_bits = 0;
            int own_reset = 0;
            int peer_bits = 0;
            int peer_reset = 0;
            if (PyArg_ParseTuple(deflate, "ipip", &own_bits, &own_reset, &peer_bits, &peer_reset) ==
                0) {
                return nullptr;
            }
            codec->inflater = std::make_unique<websocket::Inflater>(peer_bits, peer_reset != 0);
            codec->deflater = std::make_unique<websocket::Deflater>(
                own_bits, own_reset != 0, websocket::Deflater::Options{.memory_level = 5});
            inflater = codec->inflater.get();
#else
            PyErr_SetString(PyExc_RuntimeError, "penstock was built without zlib");
            return nullptr;
#endif
        }
        codec->maximum_message = maximum == 0 ? ~std::uint64_t{0} : std::uint64_t{maximum};
        codec->decoder =
            std::make_unique<MessageDecoder>(codec->role, codec->maximum_message, inflater);
        if (client != 0) {
            codec->keys = std::make_unique<websocket::MaskKeys>();
        }
        connection->codec = codec.release();
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
    connection->loop = Py_NewRef(loop);
    connection->transport = Py_NewRef(transport);
    connection->may_send = true;
    Py_RETURN_NONE;
}

PyObject* connection_data_received(PyObject* self, PyObject* data) {
    WebSocketConnectionObject* connection = websocket_of(self);
    BufferView view;
    if (!view.acquire(data, PyBUF_SIMPLE)) {
        return nullptr;
    }
    // Unmasking writes to the bytes, which others may share.
    const std::string_view bytes = view.bytes();
    const std::unique_ptr<std::byte[]> copy(new (std::nothrow) std::byte[bytes.size() + 1]);
    if (!copy) {
        return PyErr_NoMemory();
    }
    std::memcpy(copy.get(), bytes.data(), bytes.size());
    if (!decode(connection, {copy.get(), bytes.size()})) {
        return nullptr;
    }
    if ((may_complete(connection) && !connection->waiting->wake_soon()) ||
        !call_receiver_for_queue(connection)) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

/// recv(decode=None)
PyObject* connection_recv(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                          PyObject* names) {
    const Py_ssize_t named = names != nullptr ? PyTuple_GET_SIZE(names) : 0;
    if (count + named == 0) {
        return make_receive(websocket_of(self), {});
    }
    if (count + named > 1 || (named == 1 && PyUnicode_CompareWithASCIIString(
                                                PyTuple_GET_ITEM(names, 0), "decode") != 0)) {
        PyErr_SetString(PyExc_TypeError, "recv() takes one argument, decode: True, False or None");
        return nullptr;
    }
    const int decoded = arguments[0] == Py_None ? -1 : PyObject_IsTrue(arguments[0]);
    if (PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    // Binary data that is not text ends the connection: that is the Python half's.
    return decoded == 1 ? PyObject_CallMethod(self, "_recv_text", nullptr)
                        : make_receive(websocket_of(self), {.raw = decoded == 0});
}

/// _receive_event(events, session): the next message of ASGI; see `make_receive` and `event_of`.
PyObject* connection_receive_event(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    PyObject* events = count == 2 ? arguments[0] : nullptr;
    if (events == nullptr || !PyTuple_Check(events) || PyTuple_GET_SIZE(events) != 4 ||
        !PyDict_Check(PyTuple_GET_ITEM(events, 0)) || !PyDict_Check(PyTuple_GET_ITEM(events, 1))) {
        PyErr_SetString(PyExc_TypeError, "_receive_event() takes two dictionaries with a key of "
                                         "each, and a session");
        return nullptr;
    }
    return make_receive(websocket_of(self), {.events = events, .session = arguments[1]});
}

/// _recv_part(): the next part of a message, or a whole message that was received before.
PyObject* connection_recv_part(PyObject* self, PyObject* /*unused*/) {
    return make_receive(websocket_of(self), {.part = true});
}

/// _receive_parts(wanted): whether to queue the next message as parts, also what has arrived of it.
/// A message that is whole in the queue stays so, and one that is received in parts goes on so.
PyObject* connection_receive_parts(PyObject* self, PyObject* wanted) {
    WebSocketConnectionObject* connection = websocket_of(self);
    if (wanted == Py_True && (connection->receiver != nullptr || connection->waiting != nullptr)) {
        refuse_second_receiver(connection,
                               "recv_streaming() called while another coroutine receives");
        return nullptr;
    }
    if (has_message(connection) || connection->codec == nullptr) {
        Py_RETURN_NONE;
    }
    WebSocketCodec& codec = *connection->codec;
    if (codec.decoder->inside_parts()) {
        Py_RETURN_NONE;
    }
    codec.by_parts = wanted == Py_True;
    if (codec.by_parts && codec.decoder->inside_whole()) {
        try {
            const MessageDecoder::Event event = codec.decoder->part_so_far();
            if (event.kind != MessageDecoder::Kind::incomplete && !queue_part(connection, event)) {
                return nullptr;
            }
        } catch (const std::bad_alloc&) {
            return PyErr_NoMemory();
        }
    }
    Py_RETURN_NONE;
}

PyObject* connection_aiter(PyObject* self) {
    return Py_NewRef(self);
}

PyObject* connection_anext(PyObject* self) {
    return make_receive(websocket_of(self), {.iterating = true});
}

/// Ends the queue: receives that find it empty raise. Wakes the one that waits.
PyObject* connection_end(PyObject* self, PyObject* /*unused*/) {
    WebSocketConnectionObject* connection = websocket_of(self);
    connection->ended = true;
    if ((connection->waiting != nullptr && !connection->waiting->wake_soon()) ||
        !call_receiver_for_queue(connection)) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

/// _set_receiver(function): the function of `for_each`, or None.
PyObject* connection_set_receiver(PyObject* self, PyObject* function) {
    WebSocketConnectionObject* connection = websocket_of(self);
    if (function == Py_None) {
        Py_CLEAR(connection->receiver);
        Py_CLEAR(connection->receiver_context);
        Py_RETURN_NONE;
    }
    if (connection->receiver != nullptr || connection->waiting != nullptr ||
        receives_parts(connection)) {
        refuse_second_receiver(connection,
                               "for_each() called while another coroutine already receives");
        return nullptr;
    }
    Ref context(PyContext_CopyCurrent());
    if (!context) {
        return nullptr;
    }
    connection->receiver = Py_NewRef(function);
    connection->receiver_context = context.release();
    Py_RETURN_NONE;
}

/// _call_receiver(): with what is in the queue.
PyObject* connection_call_receiver(PyObject* self, PyObject* /*unused*/) {
    return call_receiver_for_queue(websocket_of(self)) ? Py_NewRef(Py_None) : nullptr;
}

/// _answer_ping(): the one that waits for room in the transport's buffer.
PyObject* connection_answer_ping(PyObject* self, PyObject* /*unused*/) {
    WebSocketConnectionObject* connection = websocket_of(self);
    if (connection->codec == nullptr) {
        Py_RETURN_NONE;
    }
    const auto payload = std::exchange(connection->codec->unanswered_ping, std::nullopt);
    if (!payload || connection->closing) {
        Py_RETURN_NONE;
    }
    try {
        if (!send_frame(connection, Opcode::pong, std::as_bytes(std::span(*payload)), {})) {
            return nullptr;
        }
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    } catch (const std::system_error& error) {
        PyErr_SetString(PyExc_OSError, error.what());
        return nullptr;
    }
    Py_RETURN_NONE;
}

int connection_traverse(PyObject* self, visitproc visit, void* arg) {
    WebSocketConnectionObject* connection = websocket_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(connection->loop);
    Py_VISIT(connection->transport);
    Py_VISIT(connection->waiting);
    Py_VISIT(connection->receiver);
    Py_VISIT(connection->receiver_context);
    return 0; // messages are str, bytes, and tuples of them and bools
}

int connection_clear(PyObject* self) {
    WebSocketConnectionObject* connection = websocket_of(self);
    // First: what is dropped behind it may run code that sends.
    connection->may_send = false;
    if (WebSocketCodec* codec = std::exchange(connection->codec, nullptr)) {
        for (PyObject* message : codec->messages) {
            Py_DECREF(message);
        }
        delete codec;
    }
    Py_CLEAR(connection->loop);
    Py_CLEAR(connection->transport);
    Py_CLEAR(connection->waiting);
    Py_CLEAR(connection->receiver);
    Py_CLEAR(connection->receiver_context);
    return 0;
}

void connection_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    if (websocket_of(self)->weak_references != nullptr) {
        PyObject_ClearWeakRefs(self);
    }
    connection_clear(self);
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef connection_methods[] = {
    {"_start", &connection_start, METH_VARARGS, nullptr},
    {"data_received", &connection_data_received, METH_O, "Decode received bytes."},
    {"recv", as_function(&connection_recv), METH_FASTCALL | METH_KEYWORDS,
     "Receive the next message."},
    {"_receive_event", as_function(&connection_receive_event), METH_FASTCALL, nullptr},
    {"_recv_part", &connection_recv_part, METH_NOARGS, nullptr},
    {"_receive_parts", &connection_receive_parts, METH_O, nullptr},
    {"send", as_function(&websocket_send), METH_FASTCALL | METH_KEYWORDS, "Send a message."},
    {"write", as_function(&websocket_write), METH_FASTCALL | METH_KEYWORDS,
     "Write a message into the transport's buffer."},
    {"_set_receiver", &connection_set_receiver, METH_O, nullptr},
    {"_call_receiver", &connection_call_receiver, METH_NOARGS, nullptr},
    {"_send_frame", &websocket_send_frame, METH_VARARGS, nullptr},
    {"_answer_ping", &connection_answer_ping, METH_NOARGS, nullptr},
    {"_end", &connection_end, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef connection_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(WebSocketConnectionObject, weak_references),
     READONLY, nullptr},
    {"_may_send", T_BOOL, offsetof(WebSocketConnectionObject, may_send), 0, nullptr},
    {"_waiting", T_OBJECT, offsetof(WebSocketConnectionObject, waiting), READONLY, nullptr},
    {"_others_wait", T_BOOL, offsetof(WebSocketConnectionObject, others_wait), 0, nullptr},
    {"_closing", T_BOOL, offsetof(WebSocketConnectionObject, closing), 0, nullptr},
    {"_reading_paused", T_BOOL, offsetof(WebSocketConnectionObject, reading_paused), 0, nullptr},
    {"_writing_paused", T_BOOL, offsetof(WebSocketConnectionObject, writing_paused), 0, nullptr},
    {"_heard", T_BOOL, offsetof(WebSocketConnectionObject, heard), 0, nullptr},
    {"_written", T_ULONGLONG, offsetof(WebSocketConnectionObject, written), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot connection_slots[] = {
    {Py_tp_doc, const_cast<char*>("The native half of a WebSocket connection.")},
    {Py_tp_new, reinterpret_cast<void*>(&connection_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&connection_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&connection_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&connection_clear)},
    {Py_am_aiter, reinterpret_cast<void*>(&connection_aiter)},
    {Py_am_anext, reinterpret_cast<void*>(&connection_anext)},
    {Py_tp_methods, connection_methods},
    {Py_tp_members, connection_members},
    {0, nullptr},
};

PyType_Spec connection_spec = {
    .name = "penstock._core.WebSocketConnection",
    .basicsize = sizeof(WebSocketConnectionObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = connection_slots,
};

} // namespace

void refuse_second_receiver(WebSocketConnectionObject* connection, const char* reason) noexcept {
    const Ref nothing(
        PyObject_CallMethod(as_object(connection), "_refuse_second_receiver", "s", reason));
}

bool receives_parts(const WebSocketConnectionObject* connection) noexcept {
    const WebSocketCodec* codec = connection->codec;
    return codec != nullptr &&
           (codec->messages.empty() ? codec->by_parts && !connection->ended
                                    : PyTuple_Check(codec->messages.front()) != 0);
}

bool has_message(const WebSocketConnectionObject* connection) noexcept {
    return connection->codec != nullptr && !connection->codec->messages.empty();
}

PyObject* take_message(WebSocketConnectionObject* connection) noexcept {
    WebSocketCodec& codec = *connection->codec;
    Ref message(codec.messages.front());
    codec.messages.pop_front();
    codec.queued_bytes -= size_of(message.get());
    if (connection->reading_paused && codec.messages.size() <= codec.resumed_at &&
        codec.queued_bytes <= maximum_queued_bytes / 4) {
        connection->reading_paused = false;
        if (!call_transport(connection, "resume_reading")) {
            return nullptr;
        }
    }
    return message.release();
}

bool feed_websocket(WebSocketConnectionObject* connection, char* data, std::size_t size,
                    Feeding feeding) noexcept {
    const Ref alive = Ref::borrow(as_object(connection));
    return decode(connection, {reinterpret_cast<std::byte*>(data), size}) &&
           (!may_complete(connection) ||
            (feeding == Feeding::from_dispatcher ? resume(connection->waiting)
                                                 : connection->waiting->wake_soon())) &&
           call_receiver_for_queue(connection);
}

bool add_websocket_connection_type(PyObject* module, ModuleState* state) {
    state->websocket_connection_type = reinterpret_cast<PyTypeObject*>(
        PyType_FromModuleAndSpec(module, &connection_spec, nullptr));
    return state->websocket_connection_type != nullptr &&
           PyModule_AddType(module, state->websocket_connection_type) == 0;
}

} // namespace penstock::python
