#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <penstock/http/head.hpp>
#include <penstock/http/method.hpp>
#include <penstock/net/endpoint.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/stream/encryption.hpp>
#include <penstock/task/task.hpp>

namespace penstock::http {

namespace detail {
class ServerExchange;
class HandlerRun;
struct RequestContext;
} // namespace detail

/// A request that a server has received: its head, and its body as a stream. The server makes one
/// for each call of a handler, and it and all views of it are valid until the handler has ended.
///
/// A `Reader`, so `copy`, `read_all` and `BufReader` take it.
///
/// Thread safety: only on the thread of its connection's loop.
class Request {
public:
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;
    ~Request();

    [[nodiscard]] Method method() const noexcept;
    /// As it was sent: "/path?query".
    [[nodiscard]] std::string_view target() const noexcept;
    /// The target up to the question mark, percent-encoded as it was sent.
    [[nodiscard]] std::string_view path() const noexcept;
    /// What follows the question mark, percent-encoded as it was sent.
    [[nodiscard]] std::string_view query() const noexcept;
    /// The server that the client asks for: the authority of an absolute target, otherwise the Host
    /// field. Empty if an HTTP/1.0 client sends neither.
    [[nodiscard]] std::string_view host() const noexcept;

    /// The decoded value of a parameter of the route: "name" for "/hello/{name}". Empty if the
    /// route has no such parameter. Throws `std::bad_alloc`.
    [[nodiscard]] std::string parameter(std::string_view name) const;
    /// The decoded value of the first parameter of the query with this name: 7 for "?a=7". Throws
    /// `std::bad_alloc`.
    [[nodiscard]] std::optional<std::string> query_parameter(std::string_view name) const;

    [[nodiscard]] const RequestHead& head() const noexcept;
    [[nodiscard]] const Fields& fields() const noexcept { return head().fields; }
    /// The value of the first field with this name.
    [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const noexcept {
        return fields().find(name);
    }

    /// The remote address of the connection (getpeername(2)), or of its TCP socket under TLS.
    /// Behind a proxy, this is the address of the proxy. A connection asks the kernel once.
    ///
    /// Errors: `address_family_not_supported` for a Unix socket, `not_supported` for a stream that
    /// has no socket, `not_connected` if the client had reset the connection before the first call.
    [[nodiscard]] Result<net::Endpoint> peer_endpoint() const;
    /// The local address of the connection (getsockname(2)). Errors: as `peer_endpoint`, without
    /// the last one.
    [[nodiscard]] Result<net::Endpoint> local_endpoint() const;

    /// What the TLS handshake has negotiated. Empty for a connection that is not encrypted.
    [[nodiscard]] std::optional<Encryption> encryption() const;
    /// The identity of the client, from a certificate that an authority of
    /// `tls::Context::ServerOptions::client_authorities_file` has signed. Empty without one. Throws
    /// `std::bad_alloc`.
    [[nodiscard]] std::optional<VerifiedPeer> client_certificate() const;

    /// A name for this request, for logs and for requests to other servers: 32 random hexadecimal
    /// digits, or what the client has sent in `ServerOptions::request_id_field`. Made by the first
    /// call, and valid until the handler has ended. Throws `std::bad_alloc`, and
    /// `std::system_error` if the kernel has no random bytes.
    [[nodiscard]] std::string_view id() const;

    /// When a filter such as `TimeLimit` will end the handler. Empty: not known. A handler passes
    /// it on to the servers that it asks.
    [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> deadline() const noexcept;
    /// For filters: sets `deadline` for the parts behind the filter. The filter ends the handler
    /// itself. A deadline later than the present one has no effect. Throws `std::bad_alloc`.
    void tell_deadline(std::chrono::steady_clock::time_point deadline);

    /// Whether the client is known to have gone: while the handler waited, the client has reset the
    /// connection, or has ended its side for longer than `ServerTimeouts::half_closed`. See
    /// `RouteOptions::when_client_goes`.
    [[nodiscard]] bool client_gone() const noexcept;
    /// Registers a function that is called if the client goes before the handler has ended, at once
    /// if the client has gone already. Each function is called once, in the order of registration,
    /// before the handler is cancelled. It runs outside the handler's task, on the loop's thread:
    /// it may set an event or cancel tasks, and must not throw. Throws `std::bad_alloc`.
    void on_close(std::function<void()> function);

    /// Whether a body was announced.
    [[nodiscard]] bool has_body() const noexcept;
    /// The announced size of the body, in bytes: 0 without a body, empty if it comes in chunks.
    [[nodiscard]] std::optional<std::uint64_t> content_length() const noexcept;

    /// Waits for a part of the body and returns its size, at most `into.size()`. 0 is the end of
    /// the body. The server receives no more than the handler reads, so a slow handler slows the
    /// client down. The first read sends "100 Continue" to a client that waits for it.
    ///
    /// Errors: `Error::body_too_large`, `Error::truncated`, the codes of `MessageError`, and those
    /// of the stream. They are final. A handler that returns one of the first three makes the
    /// server answer 413 or 400.
    ///
    /// Cancellation: a cancelled read has consumed nothing.
    [[nodiscard]] Task<Result<std::size_t>> read(MutableBytes into);

    /// The same without a copy: a part of the body as it was received. Empty at the end. The bytes
    /// are valid until the next read.
    [[nodiscard]] Task<Result<Bytes>> receive();

    /// Reads the rest of the body. Errors: as `read`. Throws `std::bad_alloc`.
    [[nodiscard]] Task<Result<std::string>> text();

    /// The fields after a body in chunks, once its end was read.
    [[nodiscard]] Fields trailers() const noexcept;

private:
    friend class detail::ServerExchange;
    friend class detail::HandlerRun;
    explicit Request(detail::ServerExchange& exchange) noexcept;

    /// For the next request of the connection.
    void forget_context() noexcept {
        client_gone_ = false;
        if (context_ != nullptr) {
            drop_context();
        }
    }
    void drop_context() noexcept;
    [[nodiscard]] detail::RequestContext& context() const;
    void tell_client_gone() noexcept;

    detail::ServerExchange& exchange_;
    mutable std::unique_ptr<detail::RequestContext> context_; ///< null until it is asked for
    bool client_gone_ = false;
};

} // namespace penstock::http
