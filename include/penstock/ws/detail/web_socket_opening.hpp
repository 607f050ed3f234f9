#pragma once

// The opening handshake of `BasicWebSocket`. Included by web_socket.hpp after the class.
// It includes that header for readers and tools that open this file alone.

// NOLINTNEXTLINE(misc-header-include-cycle)
#include <penstock/ws/web_socket.hpp>

namespace penstock::ws {

template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<BasicWebSocket<S>>> BasicWebSocket<S>::open_url(std::string url,
                                                            ConnectOptions options) {
    Result<detail::Url> parts = detail::parse_url(url);
    if (!parts) {
        co_return failure(parts.error());
    }
    Result<AnyStream> stream = co_await detail::dial(*parts, options);
    if (!stream) {
        co_return failure(stream.error());
    }
    co_return co_await connect(S(std::move(*stream)), std::move(parts->authority),
                               std::move(parts->target), std::move(options));
}

template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::open(const AcceptOptions& options) {
    detail::ServerHandshake handshake(options);
    if (const Result<> read = co_await read_head(handshake); !read) {
        co_return read;
    }
    const Result<> written = co_await stream_.write_all(Bytes(handshake.response()));
    if (written && handshake.error()) { // after the refusal there is nothing more
        co_await shut_down();
    }
    co_return finish(handshake, written, options.compression);
}

template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::open(const std::string& host, const std::string& target,
                                       const ConnectOptions& options) {
    detail::ClientHandshake handshake(host, target, options);
    if (handshake.error()) {
        co_return failure(handshake.error());
    }
    if (const Result<> written = co_await stream_.write_all(Bytes(handshake.request())); !written) {
        co_return written;
    }
    co_return finish(handshake, co_await read_head(handshake), options.compression);
}

template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Task<Result<>> BasicWebSocket<S>::read_head(auto& handshake) {
    if (connection_->holds_input() && handshake.take(Bytes(connection_->rest))) {
        co_return Result<>(); // an HTTP server has received the head
    }
    do {
        if (const Result<> fed = co_await feed(false); !fed) {
            co_return fed;
        }
    } while (!handshake.take(Bytes(connection_->rest)));
    co_return Result<>();
}

template <typename S>
    requires penstock::Stream<std::remove_reference_t<S>>
Result<> BasicWebSocket<S>::finish(auto& handshake, Result<> transferred,
                                   const std::optional<Compression>& compression) {
    if (handshake.error()) {
        return failure(handshake.error());
    }
    if (!transferred) {
        return transferred;
    }
    Connection& connection = *connection_;
    connection.rest = connection.rest.last(handshake.surplus());
    if (!connection.holds_input()) {
        connection.release_input();
    }
    opening_ = handshake.opening();
    if (const auto& agreed = opening_->compression; compression && agreed) {
        connection.compress(*compression, *agreed);
    }
    return {};
}

} // namespace penstock::ws
