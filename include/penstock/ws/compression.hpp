#pragma once

#include <cstddef>
#include <memory>

#include <penstock/codec/websocket/message_decoder.hpp>
#include <penstock/codec/websocket/message_deflater.hpp>
#include <penstock/codec/websocket/permessage_deflate.hpp>

namespace penstock::ws {

/// The parameters of permessage-deflate (RFC 7692, section 7): what this end proposes or limits.
using DeflateParameters = codec::websocket::DeflateParameters;

/// Compression of messages by permessage-deflate (RFC 7692). `ws::deflate()` of <ws/deflate.hpp>
/// makes one, on zlib, in the CMake component `penstock::deflate`: this library itself needs no
/// zlib.
///
/// Each compressed connection holds the state of zlib: after its first message in a direction, 150
/// KiB for what it sends and 40 KiB for what it receives. Smaller windows need less, and
/// `DeflateOptions::shared` needs none between messages.
struct Compression {
    DeflateParameters parameters{};
    /// Smaller messages are sent as they are, in bytes.
    std::size_t threshold = 128;
    int level = 0;        ///< of the implementation
    int memory_level = 0; ///< of the implementation
    /// Each message starts afresh, so a connection keeps nothing of one that has ended.
    bool shared = false;
    std::unique_ptr<codec::websocket::MessageDeflater> (*make_deflater)(
        const Compression&, int window_bits, bool no_context_takeover) = nullptr;
    std::unique_ptr<codec::websocket::MessageInflater> (*make_inflater)(
        const Compression&, int window_bits, bool no_context_takeover) = nullptr;
};

} // namespace penstock::ws
