#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
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
    /// Of a body that its handler has not read, what is read and dropped so that the connection can
    /// be used again. Beyond it the connection is closed.
    std::uint64_t unread_body = 65536;
    std::size_t connections = 10'000; ///< the number of open connections. Further ones wait
};

/// How long a server waits for its peer.
struct ServerTimeouts {
    std::chrono::milliseconds idle{60'000}; ///< for the first byte of a request. Then it closes
    std::chrono::milliseconds head{10'000}; ///< from the first byte to the end of the head: 408
    /// For the body, in the time in which the handler waits for it. Each received byte adds its
    /// share of a second at `body_rate`. Then the handler is cancelled: 408.
    std::chrono::milliseconds body{20'000};
    std::uint64_t body_rate = 512; ///< bytes a second
    /// For each part of a response, of up to 64 KiB, to be accepted by the peer's side. Then the
    /// handler is cancelled and the connection is closed.
    std::chrono::milliseconds write{30'000};
    /// For the peer to close after a response that ends the connection.
    std::chrono::milliseconds linger{2'000};
};

/// A handler that returned an error or threw, or another failure that no response reports.
struct ServerFailure {
    std::string_view method{}; ///< empty if the failure belongs to no request
    std::string_view target{};
    std::error_code error{}; ///< without an exception
    std::exception_ptr exception{};

    /// "GET /path: the reason", in one line. Throws `std::bad_alloc`.
    [[nodiscard]] std::string to_string() const;
};

struct ServerOptions {
    ServerLimits limits{};
    ServerTimeouts timeouts{};
    /// The value of the Server field. Empty: no such field.
    std::string server_name{};
    /// Called for each failure. Without one, failures are written to standard error. It must not
    /// throw.
    std::function<void(const ServerFailure&)> on_failure{};
};

/// Settings of one route.
struct RouteOptions {
    /// Instead of `ServerLimits::body`, if not 0.
    std::uint64_t body_limit = 0;
};

} // namespace penstock::http
