// Sending on a WebSocket connection.

#include "web/websocket_codec.hpp"
#include "web/websocket_connection.hpp"

#include "net/socket_transport.hpp"
#include "shared/buffer_view.hpp"

#include <array>
#include <cstring>
#include <new>
#include <string_view>
#include <system_error>

namespace penstock::python {

using websocket::Opcode;

namespace {

/// A frame of at most this size is put together on the stack and sent from there.
constexpr std::size_t stack_frame = 16384;

#ifdef PENSTOCK_HAS_DEFLATE
/// Below this size compression costs more than it saves.
constexpr std::size_t smallest_compressed = 64;
#endif

/// Sends bytes that may be on the stack. False with an exception set.
bool send_bytes(WebSocketConnectionObject* connection, const char* data,
                std::size_t size) noexcept {
    const Ref transport = Ref::borrow(connection->transport);
    const ModuleState* state = state_of(Py_TYPE(connection));
    if (Py_IS_TYPE(transport.get(), state->socket_transport_type)) {
        send_copy(transport_of(transport.get()), data, size);
        return PyErr_Occurred() == nullptr;
    }
    const Ref bytes(PyBytes_FromStringAndSize(data, static_cast<Py_ssize_t>(size)));
    return bytes && Ref(PyObject_CallMethodOneArg(transport.get(), state->name_write, bytes.get()));
}

/// Writes a part of a message, compressed if that was negotiated. False with an exception set.
bool send_data(WebSocketConnectionObject* connection, Opcode opcode,
               std::span<const std::byte> payload, bool final) {
#ifdef PENSTOCK_HAS_DEFLATE
    WebSocketCodec& codec = *connection->codec;
    // A fragmented message is sent as it is: its first part may be too short to tell. Control
    // frames are never compressed (RFC 7692, 5.1).
    const bool whole = final && (opcode == Opcode::text || opcode == Opcode::binary);
    if (codec.deflater && whole && payload.size() >= smallest_compressed) {
        codec::ByteBuffer compressed;
        codec.deflater->deflate(payload, true, compressed);
        return send_frame(connection, opcode, compressed.bytes(), {.compressed = true});
    }
#endif
    return send_frame(connection, opcode, payload, {.final = final});
}

std::span<const std::byte> as_bytes(std::string_view text) noexcept {
    return std::as_bytes(std::span(text.data(), text.size()));
}

/// A message's bytes. Reading them may run code of the program, which exports a buffer.
struct Payload {
    BufferView view;
    std::string_view bytes;

    /// False with an exception set.
    bool read(PyObject* message) noexcept {
        if (!PyUnicode_Check(message)) {
            if (!view.acquire(message, PyBUF_SIMPLE)) {
                return false;
            }
            bytes = view.bytes();
            return true;
        }
        Py_ssize_t size = 0;
        const char* text = PyUnicode_AsUTF8AndSize(message, &size);
        bytes = {text != nullptr ? text : "", static_cast<std::size_t>(size)};
        return text != nullptr;
    }
};

/// False with an exception set.
bool send_payload(WebSocketConnectionObject* connection, const Payload& payload, Opcode opcode,
                  bool final) noexcept {
    if (connection->codec == nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "the connection is not open");
        return false;
    }
    try {
        return send_data(connection, opcode, as_bytes(payload.bytes), final);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    } catch (const std::system_error& error) {
        PyErr_SetString(PyExc_OSError, error.what());
    }
    return false;
}

/// What has become of a message. `failed` is with an exception set.
enum class Outcome : unsigned char {
    sent,
    failed,
    left, ///< to the Python half
};

/// Whether a message is sent without the Python half.
bool is_sent_now(const WebSocketConnectionObject* connection, PyObject* message) noexcept {
    return connection->may_send &&
           (PyUnicode_Check(message) != 0 || PyObject_CheckBuffer(message) != 0);
}

/// The arguments of `send` and `write`.
struct Sending {
    PyObject* message = nullptr; ///< borrowed
    PyObject* text = nullptr;    ///< borrowed; null if it is not given, or None

    /// False with an exception set.
    bool read(const char* function, PyObject* const* arguments, Py_ssize_t count,
              PyObject* names) noexcept {
        const Py_ssize_t named = names != nullptr ? PyTuple_GET_SIZE(names) : 0;
        if (count > 1 || count + named == 0) {
            PyErr_Format(PyExc_TypeError, "%s() takes one message, %zd positional arguments given",
                         function, count);
            return false;
        }
        message = count == 1 ? arguments[0] : nullptr;
        for (Py_ssize_t i = 0; i < named; ++i) {
            PyObject* name = PyTuple_GET_ITEM(names, i);
            PyObject* value = arguments[count + i];
            if (PyUnicode_CompareWithASCIIString(name, "text") == 0) {
                text = value == Py_None ? nullptr : value;
            } else if (message == nullptr &&
                       PyUnicode_CompareWithASCIIString(name, "message") == 0) {
                message = value;
            } else {
                PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument %R",
                             function, name);
                return false;
            }
        }
        if (message == nullptr) {
            PyErr_Format(PyExc_TypeError, "%s() needs a message", function);
        }
        return message != nullptr;
    }

    [[nodiscard]] Outcome send(WebSocketConnectionObject* connection) const noexcept {
        if (!is_sent_now(connection, message)) {
            return Outcome::left;
        }
        Payload payload;
        const int is_text = text == nullptr ? PyUnicode_Check(message) : PyObject_IsTrue(text);
        if (is_text < 0 || !payload.read(message)) {
            return Outcome::failed;
        }
        if (!connection->may_send) { // code behind the arguments has closed it: no frame follows
            return Outcome::left;
        }
        const Opcode opcode = is_text != 0 ? Opcode::text : Opcode::binary;
        return send_payload(connection, payload, opcode, true) ? Outcome::sent : Outcome::failed;
    }
};

} // namespace

bool send_frame(WebSocketConnectionObject* connection, Opcode opcode,
                std::span<const std::byte> payload, websocket::FrameHeader::Options options) {
    const WebSocketCodec& codec = *connection->codec;
    websocket::MaskKey key{};
    if (codec.keys) {
        key = codec.keys->next();
    }
    const websocket::FrameHeader header =
        codec.keys ? websocket::FrameHeader(opcode, payload.size(), key, options)
                   : websocket::FrameHeader(opcode, payload.size(), options);
    const std::span<const std::byte> head = header.bytes();
    const auto assemble = [&](std::byte* target) {
        std::memcpy(target, head.data(), head.size());
        if (codec.keys) {
            websocket::copy_masked(target + head.size(), payload, key);
        } else if (!payload.empty()) {
            std::memcpy(target + head.size(), payload.data(), payload.size());
        }
    };
    const std::size_t size = head.size() + payload.size();
    connection->written += size;
    if (size <= stack_frame) {
        std::array<std::byte, stack_frame> frame;
        assemble(frame.data());
        return send_bytes(connection, reinterpret_cast<const char*>(frame.data()), size);
    }
    const Ref frame(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
    if (!frame) {
        return false;
    }
    assemble(reinterpret_cast<std::byte*>(PyBytes_AS_STRING(frame.get())));
    const Ref transport = Ref::borrow(connection->transport);
    return static_cast<bool>(Ref(PyObject_CallMethodOneArg(
        transport.get(), state_of(Py_TYPE(connection))->name_write, frame.get())));
}

PyObject* websocket_send(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                         PyObject* names) {
    WebSocketConnectionObject* connection = websocket_of(self);
    Sending sending;
    if (!sending.read("send", arguments, count, names)) {
        return nullptr;
    }
    switch (sending.send(connection)) {
    case Outcome::failed:
        return nullptr;
    case Outcome::left:
        return PyObject_CallMethod(self, "_send_otherwise", "OO", sending.message,
                                   sending.text != nullptr ? sending.text : Py_None);
    case Outcome::sent:
        break;
    }
    return connection->writing_paused ? PyObject_CallMethod(self, "_drain", nullptr)
                                      : Py_NewRef(state_of(Py_TYPE(self))->completed);
}

PyObject* websocket_write(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                          PyObject* names) {
    WebSocketConnectionObject* connection = websocket_of(self);
    Sending sending;
    if (!sending.read("write", arguments, count, names)) {
        return nullptr;
    }
    const Outcome outcome = sending.send(connection);
    if (outcome == Outcome::left) {
        return PyObject_CallMethod(self, "_refuse_write", "O", sending.message);
    }
    return outcome == Outcome::sent ? Py_NewRef(Py_None) : nullptr;
}

PyObject* websocket_send_frame(PyObject* self, PyObject* arguments) {
    WebSocketConnectionObject* connection = websocket_of(self);
    int opcode = 0;
    PyObject* payload = nullptr;
    int final = 0;
    if (PyArg_ParseTuple(arguments, "iOp", &opcode, &payload, &final) == 0) {
        return nullptr;
    }
    Payload data;
    if (!data.read(payload) ||
        !send_payload(connection, data, static_cast<Opcode>(opcode), final != 0)) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

} // namespace penstock::python
