#pragma once

#include <cstddef>
#include <memory>

#include <penstock/codec/websocket/deflate.hpp>
#include <penstock/codec/websocket/shared_deflate.hpp>
#include <penstock/ws/compression.hpp>

/// Compression of WebSocket messages on zlib. Programs that include this header link the CMake
/// component `penstock::deflate`, which exists where zlib does.
namespace penstock::ws {

struct DeflateOptions {
    /// A server's: the limits of what it accepts. A client's: what it offers.
    DeflateParameters parameters{};
    /// zlib's level, 1 (fast) to 9 (small). Messages are short, so a higher level gains little: 1
    /// KiB of JSON becomes 272 bytes at level 1 and 254 at level 6. Level 1 takes less than half of
    /// the time on a connection that keeps its window.
    int level = 1;
    /// zlib's memory level, 1 to 9: 2^(memory_level + 9) bytes beside the window. With zlib's own
    /// default, 8, messages are no smaller, and the states of several connections do not fit into
    /// the processor's cache.
    int memory_level = 5;
    /// Messages of fewer bytes are not compressed.
    std::size_t threshold = 128;
    /// For servers with many connections: the connections of a thread share zlib's states, and an
    /// idle connection holds none. Both ends compress each message by itself (no context takeover,
    /// which a client then asks of its server), so repetition across messages saves nothing.
    bool shared = false;
};

/// Offers or accepts permessage-deflate: `{.compression = ws::deflate()}`.
[[nodiscard]] inline Compression deflate(const DeflateOptions& options = {}) {
    using codec::websocket::MessageDeflater;
    using codec::websocket::MessageInflater;
    DeflateParameters parameters = options.parameters;
    if (options.shared) {
        parameters.server_no_context_takeover = parameters.client_no_context_takeover = true;
    }
    return {
        .parameters = parameters,
        .threshold = options.threshold,
        .level = options.level,
        .memory_level = options.memory_level,
        .shared = options.shared,
        .make_deflater = [](const Compression& with, int window_bits,
                            bool no_context_takeover) -> std::unique_ptr<MessageDeflater> {
            using codec::websocket::Deflater;
            const Deflater::Options effort{.level = with.level, .memory_level = with.memory_level};
            if (with.shared) {
                return std::make_unique<codec::websocket::SharedDeflater>(window_bits, effort);
            }
            return std::make_unique<Deflater>(window_bits, no_context_takeover, effort);
        },
        .make_inflater = [](const Compression& with, int window_bits,
                            bool no_context_takeover) -> std::unique_ptr<MessageInflater> {
            if (with.shared && no_context_takeover) {
                return std::make_unique<codec::websocket::SharedInflater>(window_bits);
            }
            return std::make_unique<codec::websocket::Inflater>(window_bits, no_context_takeover);
        }};
}

} // namespace penstock::ws
