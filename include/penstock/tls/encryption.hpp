#pragma once

#include <functional>
#include <string>
#include <utility>

#include <penstock/net/tcp_stream.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/any_stream.hpp>
#include <penstock/task/task.hpp>
#include <penstock/tls/context.hpp>
#include <penstock/tls/stream.hpp>

/// Encryption for code that is not built on OpenSSL, such as `ws::WebSocket` and `ws::Server`.
namespace penstock::tls {

namespace detail {

template <typename S> Task<Result<AnyStream>> encrypted(Task<Result<Stream<S>>> handshake) {
    Result<Stream<S>> stream = co_await std::move(handshake);
    if (!stream) {
        co_return failure(stream.error());
    }
    co_return AnyStream(std::move(*stream));
}

} // namespace detail

/// A function for `ws::ConnectOptions::encrypt` that makes the TLS handshake of a client with
/// `Stream::connect`. A stream that is not a TCP connection is a tunnel through an encrypted proxy
/// connection.
[[nodiscard]] inline std::function<Task<Result<AnyStream>>(AnyStream, std::string)>
client_encryption(Context context) {
    return [context = std::move(context)](AnyStream stream, std::string server_name) {
        if (net::TcpStream* const socket = stream.tcp()) {
            return detail::encrypted(Stream<net::TcpStream>::connect(std::move(*socket), context,
                                                                     std::move(server_name)));
        }
        return detail::encrypted(
            Stream<AnyStream>::connect(std::move(stream), context, std::move(server_name)));
    };
}

/// A function for `ws::ServerOptions::encrypt`, and for `http::Server::serve` as `prepare`, that
/// makes the TLS handshake of a server with `Stream::accept`.
[[nodiscard]] inline std::function<Task<Result<AnyStream>>(net::TcpStream)>
server_encryption(Context context) {
    return [context = std::move(context)](net::TcpStream stream) {
        return detail::encrypted(Stream<net::TcpStream>::accept(std::move(stream), context));
    };
}

} // namespace penstock::tls
