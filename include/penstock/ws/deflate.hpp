#pragma once

#include <cstddef>
#include <memory>

#include <penstock/codec/websocket/deflate.hpp>
#include <penstock/ws/compression.hpp>

/// Compression of WebSocket messages on zlib. Programs that include this header link the CMake
/// component `penstock::deflate`, which exists where zlib does.
namespace penstock::ws {

struct DeflateOptions {
    /// As a server: the limits of what is agreed. As a client: what is offered.
    DeflateParameters parameters{};
    /// zlib's, 1 (fast) to 9 (small). A message is short, so more effort finds little more: 1 KiB
    /// of JSON becomes 272 bytes at level 1 and 254 at level 6, in less than half of the time on
    /// a connection that keeps its window.
    int level = 1;
    /// zlib's, 1 to 9: 2^(memory_level + 9) bytes beside the window. zlib's own default, 8, makes
    /// messages no smaller, and the states of several connections do not fit into the cache.
    int memory_level = 5;
    /// Smaller messages are sent as they are, in bytes.
    std::size_t threshold = 128;
};

/// Offers or accepts permessage-deflate: `{.compression = ws::deflate()}`.
[[nodiscard]] inline Compression deflate(const DeflateOptions& options = {}) {
    using codec::websocket::MessageDeflater;
    using codec::websocket::MessageInflater;
    return {.parameters = options.parameters,
            .threshold = options.threshold,
            .level = options.level,
            .memory_level = options.memory_level,
            .make_deflater = [](const Compression& with, int window_bits,
                                bool no_context_takeover) -> std::unique_ptr<MessageDeflater> {
                using codec::websocket::Deflater;
                return std::make_unique<Deflater>(
                    window_bits, no_context_takeover,
                    Deflater::Options{.level = with.level, .memory_level = with.memory_level});
            },
            .make_inflater = [](const Compression& /*with*/, int window_bits,
                                bool no_context_takeover) -> std::unique_ptr<MessageInflater> {
                return std::make_unique<codec::websocket::Inflater>(window_bits,
                                                                    no_context_takeover);
            }};
}

} // namespace penstock::ws
