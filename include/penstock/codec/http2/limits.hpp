#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::codec::http2 {

/// What events of one kind may cost: so many at once, and so many a second for longer.
struct Rate {
    double burst = 0;
    double a_second = 0;
};

/// What one client may ask of a connection. What exceeds a rate ends the connection with
/// ENHANCE_YOUR_CALM.
struct Limits {
    /// Streams that are open at once. A client that opens more gets REFUSED_STREAM, or loses the
    /// connection once it has confirmed this limit.
    std::uint32_t streams = 100;
    /// Bytes of a head as RFC 9113 counts them: each field's name and value, and 32.
    std::size_t head = 65536;
    /// Fields of a head, with each part of a split Cookie.
    std::size_t fields = 128;
    /// Whether a client may ask for a WebSocket on a stream (RFC 8441). Not a limit, but the client
    /// learns it with them.
    bool websockets = false;
    /// Bytes of a body that may wait for the program, for each stream.
    std::uint32_t stream_window = 131072;
    /// Bytes of bodies on their way, of all streams.
    std::uint32_t connection_window = 1U << 20;
    /// Streams that end by RST_STREAM, whoever sends it (CVE-2023-44487, CVE-2025-8671).
    Rate resets = {.burst = 200, .a_second = 20};
    /// Frames that do not carry a message: SETTINGS, PING, PRIORITY, WINDOW_UPDATE, CONTINUATION,
    /// unknown ones and empty DATA (CVE-2019-9512, -9515, -9518). Each DATA frame allows for two
    /// more, since windows have to be updated.
    Rate control_frames = {.burst = 1000, .a_second = 100};
    /// CONTINUATION frames of one head (CVE-2024-28182).
    std::size_t continuations = 8;
    /// Answers to PING and SETTINGS that wait because the client does not read (CVE-2019-9512).
    std::size_t waiting_answers = 100;
};

} // namespace penstock::codec::http2
