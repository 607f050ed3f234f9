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
    std::uint32_t streams = 100; ///< HTTP/2: concurrent requests of one connection
    /// How many unsent bytes the kernel keeps for a client that reads slowly:
    /// `net::WriteLimit::maximum_backlog`.
    std::uint32_t maximum_backlog = 131'072;
};

/// How long a server waits for its peer. 0 means no limit.
struct ServerTimeouts {
    static constexpr std::chrono::milliseconds none{0};

    /// For the first byte of a request. Then the server closes the connection.
    std::chrono::milliseconds idle{60'000};
    /// How long a connection that waits for the first byte of a request is safe from being closed
    /// in favour of a new one, when `ServerLimits::connections` is reached or descriptors are
    /// lacking. 0: not at all.
    std::chrono::milliseconds safe_idle{1'000};
    std::chrono::milliseconds head{10'000}; ///< from the first byte to the end of the head: 408
    /// Total time that the handler may spend waiting for body data. The allowance grows by one
    /// second for every `body_rate` bytes received. When it runs out, the handler is cancelled and
    /// the client gets 408.
    std::chrono::milliseconds body{20'000};
    std::uint64_t body_rate = 512; ///< bytes a second
    /// How long a client that has ended its side of the connection (FIN) still counts as waiting
    /// for the response. The client may have shut down its write side only, as `nc -N` does, or
    /// have closed the connection: the server cannot tell. After this time the client counts as
    /// gone, after a reset at once. Over HTTP/2 a FIN counts as gone at once: there a client ends
    /// its streams, and not its side of the connection.
    std::chrono::milliseconds half_closed{2'000};
    /// For a client that does not read the response: `net::WriteLimit::time`. Each byte that the
    /// client has read adds 1/`write_rate` seconds. So a slow client gets all of a large response.
    /// For a client that reads nothing, writing fails with `timed_out`, and the connection is
    /// closed.
    std::chrono::milliseconds write{30'000};
    std::uint32_t write_rate = 2048; ///< bytes a second
    /// For the client to close the connection after the last response.
    std::chrono::milliseconds linger{2'000};
};

/// A failure that the server reports: a handler that returned an error or threw, or another one
/// that no response shows. That a client closes or resets its connection is not a failure.
struct ServerFailure {
    enum class Level : std::uint8_t {
        failure, ///< of the program or the machine
        /// Any client can cause it at will: a handshake that fails or takes too long, or, on an
        /// upgraded connection, a reset or `std::errc::protocol_error`.
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
class Request;
class Response;

/// The settings of a `Server`.
struct ServerOptions {
    ServerLimits limits{};
    ServerTimeouts timeouts{};
    /// Serves HTTP/2 too (RFC 9113): over TLS to clients that have negotiated "h2"
    /// (`tls::Context::ServerOptions::alpn`), without TLS to clients with prior knowledge (RFC
    /// 9113, section 3.3). Handlers see no difference. Needs libnghttp2 (Debian: libnghttp2-14).
    bool http2 = false;
    /// The value of the Server field. Empty: no such field.
    std::string server_name{};
    /// Called for each failure and notice. Null: failures are written to standard error, and
    /// notices are dropped. Called on the loop's thread. It must not throw.
    std::function<void(const ServerFailure&)> on_failure{};
    /// Counts the requests of this server. Null: nothing is counted, at no cost. Upgrades are not
    /// counted, nor are requests whose response could not be completed.
    std::shared_ptr<Metrics> metrics{};
    /// Gets a line for each request, even if its response could not be completed. Upgrades have no
    /// line. Null: there is no log, at no cost.
    std::shared_ptr<AccessLog> access_log{};
    /// The field from which `Request::id` takes a request's name, such as "X-Request-Id". Set it
    /// only if all clients are trusted, such as a proxy of your own. A name is not taken if it has
    /// more than 128 characters, or others than letters, digits and -._~+/=:@. Empty: `Request::id`
    /// makes up all names.
    std::string request_id_field{};
    /// Replaces the body of a response that the server makes by itself: 404, 405, 413, 500 ... The
    /// function gets the response with its status and a body of one line, and may set fields and
    /// another body. It cannot change the status. An exception is reported as a failure, and the
    /// one line is sent.
    std::function<void(Response&)> error_page{};
    /// Called for each request before its route is looked for, so also for those without one: a
    /// filter of the first kind that `chain` takes, such as `Cors` or `RateLimit`. It returns
    /// whether the request goes on. If it returns false, it has set the response. Upgrades pass it
    /// too. Fields that are to stand on the server's own answers, such as 404 and 405, are set by
    /// `Response::lasting_header`. An exception counts as the handler's. Null: all go on.
    std::function<bool(Request&, Response&)> gate{};
};

/// What happens to a waiting handler when its client has gone: the client has reset the connection,
/// or ended its side for longer than `ServerTimeouts::half_closed`. A handler that is reading the
/// request's body is not affected: its read returns the end or the error.
enum class WhenClientGoes : std::uint8_t {
    /// The handler's task is cancelled, because nobody waits for the response. If the handler
    /// answers all the same, its response is sent.
    cancel,
    /// The handler goes on. Its response is sent if that is still possible.
    finish,
};

/// Settings of one route.
struct RouteOptions {
    /// Replaces `ServerLimits::body`, in bytes. 0: no replacement.
    std::uint64_t body_limit = 0;
    WhenClientGoes when_client_goes = WhenClientGoes::cancel;
};

} // namespace penstock::http
