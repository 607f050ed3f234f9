#pragma once

// Frames of HTTP/2 by hand: for what no client sends.

#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <penstock/codec/http2/server_session.hpp>
#include <penstock/http/server.hpp>
#include <penstock/net/tcp_stream.hpp>
#include <penstock/task/task.hpp>

#include "coro/http/running_server.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/watchdog.hpp"

namespace penstock::testing::http2 {

inline constexpr char data_frame = 0;
inline constexpr char headers_frame = 1;
inline constexpr char reset_frame = 3;
inline constexpr char settings_frame = 4;
inline constexpr char ping_frame = 6;
inline constexpr char away_frame = 7;
inline constexpr char window_frame = 8;
inline constexpr char ends_stream = 1;
inline constexpr char ends_head = 4;
inline constexpr char whole_head = 5; ///< ends the head and the stream

inline std::string frame(char type, char flags, char stream, std::string_view payload) {
    const std::size_t size = payload.size();
    std::string made = {static_cast<char>(size >> 16U),
                        static_cast<char>(size >> 8U),
                        static_cast<char>(size),
                        type,
                        flags,
                        0,
                        0,
                        0,
                        stream};
    return made.append(payload);
}

/// A head with fields that no table has, after GET http://a by the static one.
inline std::string
head(std::string_view path,
     std::initializer_list<std::pair<std::string_view, std::string_view>> fields = {}) {
    std::string text = "\x82\x86\x41\x01"
                       "a\x04";
    text.append(1, static_cast<char>(path.size())).append(path);
    for (const auto& [name, value] : fields) {
        text.append(1, '\0').append(1, static_cast<char>(name.size())).append(name);
        text.append(1, static_cast<char>(value.size())).append(value);
    }
    return text;
}

inline std::string begin() {
    return std::string(codec::http2::client_preface) + frame(settings_frame, 0, 0, "");
}

struct Frame {
    char type = 0;
    char flags = 0;
    int stream = 0;
    std::string payload;
};

/// The next frame that is not about settings and windows, or any. None at the end of the
/// connection.
inline Task<std::optional<Frame>> next_frame(net::TcpStream& stream, bool any = false) {
    for (;;) {
        std::array<char, 9> head{};
        for (std::size_t have = 0; have < head.size();) {
            const std::size_t size = expect(co_await stream.read(std::span(head).subspan(have)));
            if (size == 0) {
                co_return std::nullopt;
            }
            have += size;
        }
        const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(head[i]); };
        Frame frame{.type = head[3], .flags = head[4], .stream = byte(8), .payload = {}};
        frame.payload.resize(static_cast<std::size_t>(byte(0) << 16 | byte(1) << 8 | byte(2)));
        for (std::size_t have = 0; have < frame.payload.size();) {
            have += expect(co_await stream.read(std::span(frame.payload).subspan(have)));
        }
        if (any || (frame.type != settings_frame && frame.type != window_frame)) {
            co_return frame;
        }
    }
}

inline Frame expect_frame(std::optional<Frame> frame) {
    if (!frame) {
        throw std::runtime_error("the connection has ended");
    }
    return std::move(*frame);
}

/// The code of RST_STREAM by a client that has lost its interest.
inline constexpr std::string_view cancel("\0\0\0\x8", 4);

/// Sends frames to a server, and passes the connection on.
template <typename Program>
void talk(http::Server& server, std::string_view sent, Program program) {
    const Watchdog watchdog(60);
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await stream.write_all(begin().append(sent)));
        co_await program(stream);
    });
}

} // namespace penstock::testing::http2
