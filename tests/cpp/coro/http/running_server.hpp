#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <penstock/http/server.hpp>
#include <penstock/net/tcp_listener.hpp>
#include <penstock/net/tcp_stream.hpp>
#include <penstock/stream/read_all.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>

#include "coro/support/tcp_pair.hpp"

namespace penstock::testing {

/// Runs `client(endpoint)` beside a server on the loopback interface, and then stops the server.
template <typename Client> void with_server(http::Server& server, Client client) {
    const auto stopping = [&](net::Endpoint endpoint) -> Task<Result<>> {
        co_await client(endpoint);
        server.stop(std::chrono::seconds(5));
        co_return Result<>();
    };
    const auto body = [&]() -> Task<void> {
        net::TcpListener listener = listen_on_loopback();
        const net::Endpoint endpoint = expect(listener.local_endpoint());
        const auto ended = co_await all(server.serve(std::move(listener)), stopping(endpoint));
        expect(Result<>(ended ? Result<>() : failure(ended.error())));
    };
    run(body());
}

/// Sends a text, ends the output, and returns all that the server sends until it closes.
inline Task<std::string> exchange(net::Endpoint endpoint, std::string text) {
    net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
    expect(co_await stream.write_all(text));
    expect(stream.shutdown());
    co_return expect(co_await read_all_text(stream));
}

/// Reads until the text ends with `end`.
template <typename S> Task<std::string> read_until(S& stream, std::string_view end) {
    std::string text;
    while (!text.ends_with(end)) {
        std::array<char, 1> next{};
        if (expect(co_await stream.read(next)) == 0) {
            throw std::runtime_error("the stream ends after: " + text);
        }
        text += next[0];
    }
    co_return text;
}

/// The response without its Date field, which changes.
inline std::string without_date(std::string text) {
    for (std::size_t at = text.find("Date: "); at != std::string::npos; at = text.find("Date: ")) {
        text.erase(at, text.find("\r\n", at) + 2 - at);
    }
    return text;
}

/// The first line.
inline std::string status_line(const std::string& text) {
    return text.substr(0, text.find("\r\n"));
}

} // namespace penstock::testing
