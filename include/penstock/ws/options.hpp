#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/codec/http/head.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/any_stream.hpp>
#include <penstock/task/task.hpp>
#include <penstock/ws/compression.hpp>

namespace penstock::ws {

/// The limits of a connection, for servers and clients. A time of 0 means no limit.
struct Limits {
    /// The value of a size without a limit.
    static constexpr std::uint64_t none = ~std::uint64_t{0} >> 1;

    /// The largest message that `receive` returns, in bytes, before and after decompression. A
    /// larger one ends the connection with close code 1009, before its data is stored.
    std::uint64_t message = std::uint64_t{1} << 20;
    /// The largest message that `receive_part` returns in parts, in bytes before decompression.
    std::uint64_t streamed_message = none;
    /// The value of a time without a limit.
    static constexpr std::chrono::milliseconds no_time{0};
    /// How long the opening handshake may take, including that of TLS. Then it fails with
    /// `timed_out`.
    std::chrono::milliseconds handshake{10'000};
    /// How long sending a close frame and waiting for the peer's answer may take.
    std::chrono::milliseconds close{10'000};
    /// A `receive` that gets nothing for this long sends a ping. 0 turns this off.
    std::chrono::milliseconds ping_interval{20'000};
    /// If nothing arrives for this long after that ping, the receive fails with `timed_out`, and
    /// the peer gets close code 1011.
    std::chrono::milliseconds ping_timeout{20'000};
    /// A `receive` that waits for longer than this ends the connection, even if the peer answers
    /// pings: it fails with `timed_out`, and the peer gets close code 1001. The time starts with
    /// the first wait after a whole message, or after a part that `receive_part` has returned. Sent
    /// messages do not count, so a peer that only listens is idle. 0 turns this off.
    std::chrono::milliseconds idle{0};
    /// How long a send waits for a peer that does not read: `net::WriteLimit::time`. Each byte that
    /// the peer takes adds 1/`write_rate` seconds. When the time runs out, the send fails with
    /// `timed_out`. While a `receive` sends a ping or pong, `ping_timeout` holds instead if it is
    /// shorter, and the receive fails. This replaces the limit that the socket had. Over a stream
    /// without a socket (`AnyStream::transport`), each part of up to 64 KiB has this time.
    std::chrono::milliseconds write{30'000};
    std::uint32_t write_rate = 2048; ///< bytes a second
    /// How many unsent bytes the kernel keeps for a peer that reads slowly:
    /// `net::WriteLimit::maximum_backlog`.
    std::uint32_t maximum_backlog = 131'072;

    friend bool operator==(const Limits&, const Limits&) = default;
};

/// A server's options.
struct AcceptOptions {
    /// The subprotocols that the server speaks. The first one that the client offers is selected.
    std::vector<std::string> subprotocols{};
    /// Accepts or refuses a valid request, for example by its target or its Origin (RFC 6455,
    /// section 10.2). Returns 0 to accept it, or the HTTP status of the refusal, 400 to 599. A web
    /// page of any site can open a connection with the user's cookies, so a server that relies on
    /// cookies must check the Origin. The head is valid during the call. Null: all are accepted.
    std::function<int(const codec::http::RequestHead&)> check{};
    /// Additional fields of the response.
    std::vector<std::pair<std::string, std::string>> fields{};
    /// Accepts permessage-deflate: `ws::deflate()`.
    std::optional<Compression> compression{};
    Limits limits{};
};

/// A client's options.
struct ConnectOptions {
    /// The subprotocols that are offered, the preferred one first.
    std::vector<std::string> subprotocols{};
    /// Additional fields of the request, such as Origin and Authorization.
    std::vector<std::pair<std::string, std::string>> fields{};
    /// Offers permessage-deflate: `ws::deflate()`.
    std::optional<Compression> compression{};
    /// For wss URLs and https proxies: makes the encrypted stream over a connection to the server
    /// or proxy of that name. The connection is a tunnel if it goes through a proxy.
    /// `tls::client_encryption(context)` of <tls/encryption.hpp> returns one.
    std::function<Task<Result<AnyStream>>(AnyStream, std::string server_name)> encrypt{};
    /// The URL of an HTTP proxy that makes a tunnel (CONNECT; RFC 9110, section 9.3.6):
    /// "http://user:password@proxy.example:3128". With "https://", the connection to the proxy is
    /// encrypted too. Empty: none.
    std::string proxy{};
    /// Gets the response of a server or proxy that refuses the connection. Its status tells why,
    /// and fields such as Location and WWW-Authenticate tell what to do. The head is valid during
    /// the call. `connect` rethrows an exception of this function.
    std::function<void(const codec::http::ResponseHead&)> on_refusal{};
    Limits limits{};
};

} // namespace penstock::ws
