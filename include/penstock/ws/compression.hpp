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
/// makes one on zlib. It is in the CMake component `penstock::deflate`, so that this library itself
/// needs no zlib.
///
/// A compressed connection holds zlib's state from its first message in a direction on: 150 KiB for
/// sending and 40 KiB for receiving. Smaller windows need less, and `DeflateOptions::shared` needs
/// none between messages.
struct Compression {
    DeflateParameters parameters{};
    /// Messages of fewer bytes are not compressed.
    std::size_t threshold = 128;
    int level = 0;        ///< `DeflateOptions::level`
    int memory_level = 0; ///< `DeflateOptions::memory_level`
    /// Each message is compressed by itself, so a connection keeps no state between messages.
    bool shared = false;
    std::unique_ptr<codec::websocket::MessageDeflater> (*make_deflater)(
        const Compression&, int window_bits, bool no_context_takeover) = nullptr;
    std::unique_ptr<codec::websocket::MessageInflater> (*make_inflater)(
        const Compression&, int window_bits, bool no_context_takeover) = nullptr;
};

} // namespace penstock::ws
