#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include <penstock/detail/server/accept_loop.hpp>
#include <penstock/detail/server/seat.hpp>
#include <penstock/http/request.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/any_stream.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/task.hpp>

namespace penstock::http {

class Upgrade;

namespace detail {

class ServerExchange;

/// For protocols of this library: the connection is served elsewhere from now on, and all that the
/// server had for HTTP ends with the handler. Null if there is no task of its own that may end, on
/// a stream of HTTP/2 and in `Server::serve_connection`: then the handler must stay. Throws
/// `std::bad_alloc`.
[[nodiscard]] std::unique_ptr<penstock::detail::Seat> leave(Upgrade& upgrade);
[[nodiscard]] penstock::detail::AcceptLoop& accept_loop_of(const Upgrade& upgrade) noexcept;

} // namespace detail

/// A connection that a handler takes over, with the request that asked for it: a WebSocket, or a
/// tunnel. No response was sent. The handler sends "101 Switching Protocols", or a refusal, and
/// then speaks the other protocol. The connection is closed when the handler has ended.
///
/// The server's timeouts do not apply. A graceful shutdown cancels the handler at the end of the
/// grace period. A handler that wants to end earlier waits for `stopping`.
///
/// The object is a `Stream`: `read`, `write_all` and `shutdown` work over any connection, and
/// `read` begins with what was received after the head. Where the type is known, `stream` returns
/// the stream itself, which costs less. Then begin with `surplus`. `take` gives the connection
/// away, to code that owns its stream. `ws::WebSocket::accept(upgrade)` does so.
///
/// Over HTTP/2 (`ServerOptions::http2`) a client asks for the protocol on an HTTP/2 stream, by an
/// extended CONNECT (RFC 8441). Handlers see little difference: the request has method GET and the
/// fields that it would have in HTTP/1.1, "101 Switching Protocols" is sent as 200, and a refusal
/// may have a Content-Length. But `stream` always returns null there, and the HTTP/2 stream ends
/// with the handler, even one that was taken.
///
/// The object, and all views of it, are valid until the handler has ended.
///
/// Thread safety: that of the stream.
class Upgrade {
public:
    Upgrade(const Upgrade&) = delete;
    Upgrade& operator=(const Upgrade&) = delete;

    /// The request. It has no body.
    [[nodiscard]] const Request& request() const noexcept { return request_; }
    [[nodiscard]] const RequestHead& head() const noexcept { return request_.head(); }

    /// The head of the request as it was received, with the empty line.
    [[nodiscard]] std::string_view head_text() const noexcept;

    /// What was received after the head and not read yet. Valid until the next `read` or `take`.
    [[nodiscard]] Bytes surplus() const noexcept;

    /// A connection that was given away.
    struct Taken {
        AnyStream stream;
        std::vector<std::byte> surplus; ///< what was received after the head and not read yet
    };

    /// Gives the connection away. The request and `stopping` stay valid until the handler has
    /// ended, and `read`, `write_all` and `shutdown` fail from now on. Throws `std::bad_alloc`.
    [[nodiscard]] Taken take();

    /// The stream of the connection if it has this type, such as `net::TcpStream` or
    /// `tls::Stream<net::TcpStream>`. Null otherwise. It may be moved from.
    template <typename S> [[nodiscard]] S* stream() noexcept { return stream_.get_if<S>(); }

    /// Waits for data and returns the number of bytes read. 0 is the end of the stream.
    [[nodiscard]] Task<Result<std::size_t>> read(MutableBytes into);
    /// Writes all bytes of both.
    [[nodiscard]] Task<Result<>> write_all(Bytes from, Bytes more = {}) {
        return stream_.write_all(from, more);
    }
    /// Ends the write side: the peer reads the end of the stream. Reading continues.
    [[nodiscard]] Task<Result<>> shutdown() { return stream_.shutdown(); }

    /// Set when the server's graceful shutdown begins.
    [[nodiscard]] sync::Event& stopping() const noexcept;

private:
    friend class detail::ServerExchange;
    friend std::unique_ptr<penstock::detail::Seat> detail::leave(Upgrade& upgrade);
    friend penstock::detail::AcceptLoop& detail::accept_loop_of(const Upgrade& upgrade) noexcept;
    Upgrade(detail::ServerExchange& exchange, const Request& request) noexcept;

    detail::ServerExchange& exchange_;
    const Request& request_;
    AnyStream& stream_;
};

} // namespace penstock::http
