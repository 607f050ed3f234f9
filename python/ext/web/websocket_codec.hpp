#pragma once

#include "web/websocket_connection.hpp"

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <penstock/codec/websocket/masking.hpp>
#include <penstock/codec/websocket/message_decoder.hpp>
#ifdef PENSTOCK_HAS_DEFLATE
#include <penstock/codec/websocket/deflate.hpp>
#endif

namespace penstock::python {

namespace websocket = codec::websocket;

/// What a connection has after its handshake.
struct WebSocketCodec {
    websocket::Role role;
#ifdef PENSTOCK_HAS_DEFLATE
    std::unique_ptr<websocket::Inflater> inflater;
    std::unique_ptr<websocket::Deflater> deflater;
#endif
    std::unique_ptr<websocket::MessageDecoder> decoder;
    std::unique_ptr<websocket::MaskKeys> keys; ///< of a client
    std::deque<PyObject*> messages;            ///< owned
    std::size_t queued_bytes = 0;
    std::size_t maximum_queued = 0; ///< messages beyond which reading pauses; 0 means no limit
    std::size_t resumed_at = 0;     ///< messages at which it goes on
    /// `recv_streaming`: messages that begin from now on are queued as parts, each a tuple of
    /// whether it is text, its bytes, and whether it ends the message.
    bool by_parts = false;
    std::uint64_t maximum_message = 0;
    std::uint64_t parted_bytes = 0; ///< of the message that is queued as parts, decompressed
    /// The payload of the last ping that came while writing was paused. It alone is answered
    /// (RFC 6455, 5.5.3), so a peer that does not read cannot fill the transport's buffer.
    std::optional<std::string> unanswered_ping;
};

/// Writes one frame in one call. False with an exception set. Throws std::bad_alloc and
/// std::system_error.
bool send_frame(WebSocketConnectionObject* connection, websocket::Opcode opcode,
                std::span<const std::byte> payload, websocket::FrameHeader::Options options);

// Methods of the connection.

/// send(message, *, text=None): at once, and an awaitable for the room in the transport's buffer.
PyObject* websocket_send(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                         PyObject* names);

/// write(message, *, text=None): at once, or into the transport's buffer.
PyObject* websocket_write(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                          PyObject* names);

/// _send_frame(opcode, payload, final): without any check of the connection's state.
PyObject* websocket_send_frame(PyObject* self, PyObject* arguments);

} // namespace penstock::python
