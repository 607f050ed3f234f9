#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

namespace penstock::http {

/// What a server accepts before it refuses a request, in bytes unless stated otherwise.
struct ServerLimits {
    std::size_t request_line = 8192; ///< beyond it: 414
    std::size_t head = 32768;        ///< all lines of a head: 431
    std::size_t fields = 100;        ///< the number of fields of a head: 431
    std::uint64_t body = 1'048'576;  ///< 413. `RouteOptions::body_limit` overrides it
    /// How many bytes of an unread request body the server discards to keep the connection. Beyond
    /// it the connection is closed.
    std::uint64_t unread_body = 65536;
    /// The number of open connections, at least 1. Further ones replace those that wait for a
    /// request (`ServerTimeouts::safe_idle`), or else wait until one has ended.
    std::size_t connections = 10'000;
    std::uint32_t streams = 100; ///< of HTTP/2: requests of a connection that are open at once
    /// Of a client that is slow to read, what the kernel keeps: `net::WriteLimit::maximum_backlog`.
    std::uint32_t maximum_backlog = 131'072;
};

/// How long a server waits for its peer. 0 means no limit.
struct ServerTimeouts {
    static constexpr std::chrono::milliseconds none{0};

    std::chrono::milliseconds idle{60'000}; ///< for the first byte of a request. Then it closes
    /// For how long a connection may wait for the first byte of a request before it can be closed
    /// in favour of a new one, at `ServerLimits::connections` or when descriptors are lacking. 0:
    /// it can be at once.
    std::chrono::milliseconds safe_idle{1'000};
    std::chrono::milliseconds head{10'000}; ///< from the first byte to the end of the head: 408
    /// Total time that the handler may spend waiting for body data. The allowance grows by one
    /// second for every `body_rate` bytes received. When it runs out, the handler is cancelled and
    /// the client gets 408.
    std::chrono::milliseconds body{20'000};
    std::uint64_t body_rate = 512; ///< bytes a second
    /// For a handler that waits when its client ends its side of the connection. The client may
    /// only have sent all that it wants to send, as `nc -N` does, or have closed, which looks the
    /// same. After this time it counts as gone, after a reset at once. Over HTTP/2 it counts as
    /// gone at once: there a client ends its streams, and not its side of the connection.
    std::chrono::milliseconds half_closed{2'000};
    /// For a response that the client does not read: `net::WriteLimit::time`. What the client has
    /// read adds its share of a second at `write_rate`, so a slow client gets all of a large
    /// response, and one that reads nothing is closed. Writing then fails with `timed_out`.
    std::chrono::milliseconds write{30'000};
    std::uint32_t write_rate = 2048; ///< bytes a second
    /// For the peer to close after a response that ends the connection.
    std::chrono::milliseconds linger{2'000};
};

/// A handler that returned an error or threw, or another failure that no response reports. The end
/// of a connection by its client is none.
struct ServerFailure {
    enum class Level : std::uint8_t {
        failure, ///< of the program or the machine
        /// What strangers can cause at will: a handshake that fails or takes too long; in a
        /// connection that was taken over, a reset or `std::errc::protocol_error`.
        notice,
    };

    std::string_view method{}; ///< empty if the failure belongs to no request
    std::string_view target{};
    std::error_code error{}; ///< without an exception
    std::exception_ptr exception{};
    Level level = Level::failure;

    /// "GET /path: the reason", in one line. Throws `std::bad_alloc`.
    [[nodiscard]] std::string to_string() const;
};

class AccessLog;
class Metrics;
class Response;

struct ServerOptions {
    ServerLimits limits{};
    ServerTimeouts timeouts{};
    /// Serves HTTP/2 too (RFC 9113), to clients that begin with its preface: over TLS to those with
    /// which the context has agreed on "h2" (`tls::ServerOptions::alpn`), without TLS to those that
    /// know it before. Handlers see no difference. Needs libnghttp2 (Debian: libnghttp2-14).
    bool http2 = false;
    /// The value of the Server field. Empty: no such field.
    std::string server_name{};
    /// Called for each failure and notice. Without one, failures are written to standard error and
    /// notices dropped. It must not throw.
    std::function<void(const ServerFailure&)> on_failure{};
    /// Counts the requests of this server. Null: nothing is counted, at no cost. Upgrades are no
    /// requests there, and neither are those whose response could not be completed.
    std::shared_ptr<Metrics> metrics{};
    /// Gets a line for each of them, and for those whose response could not be completed. Null:
    /// there is no log, at no cost.
    std::shared_ptr<AccessLog> access_log{};
    /// The field in which clients send names for their requests: "X-Request-Id". Only if all
    /// clients are trusted, such as a proxy of your own. A name of more than 128 characters, or
    /// with others than letters, digits and -._~+/=:@, is not taken. Empty: `Request::id` makes
    /// them all.
    std::string request_id_field{};
    /// Makes the page of a response that the server makes by itself: 404, 405, 413, 500 ... Called
    /// with the response, which has its status and a text of one line; it may set fields and
    /// another body. The status stays. What it throws is reported as a failure, and the line is
    /// sent.
    std::function<void(Response&)> error_page{};
};

/// What becomes of a handler that waits when its client resets the connection, or has ended its
/// side for `ServerTimeouts::half_closed`. One that reads the request's body then is not concerned:
/// it reads the end or the error.
enum class WhenClientGoes : std::uint8_t {
    /// Its task is cancelled: nobody waits for the response. If it answers in spite of that, the
    /// answer is sent.
    cancel,
    /// It goes on, and its response is sent, if that is still possible.
    finish,
};

/// Settings of one route.
struct RouteOptions {
    /// Instead of `ServerLimits::body`, if not 0.
    std::uint64_t body_limit = 0;
    WhenClientGoes when_client_goes = WhenClientGoes::cancel;
};

} // namespace penstock::http
