#pragma once

#include <charconv>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/penstock.hpp>

#include "coro/support/tcp_pair.hpp"
#include "support/watchdog.hpp"

namespace penstock::testing {

/// A received request.
struct ReceivedRequest {
    std::string method;
    std::string target;
    std::multimap<std::string, std::string> fields; ///< names in lower case
    std::string body;

    [[nodiscard]] std::string field(const std::string& name) const {
        const auto found = fields.find(name);
        return found == fields.end() ? "(none)" : found->second;
    }
    [[nodiscard]] bool has(const std::string& name) const { return fields.contains(name); }
};

/// A connection of a server that answers byte by byte what a test wants, valid or not.
class ServedConnection {
public:
    ServedConnection(net::TcpStream stream, std::size_t number)
        : stream_(std::move(stream)), number_(number) {}
    ServedConnection(const ServedConnection&) = delete;
    ServedConnection& operator=(const ServedConnection&) = delete;

    /// The position of this connection among those of the server, from 0.
    [[nodiscard]] std::size_t number() const noexcept { return number_; }
    [[nodiscard]] net::TcpStream& stream() noexcept { return stream_; }
    [[nodiscard]] BufReader<net::TcpStream&>& reader() noexcept { return reader_; }

    /// The head of the next request. None at the end of the connection.
    Task<std::optional<ReceivedRequest>> head() {
        ReceivedRequest request;
        auto first = co_await reader_.line();
        if (!first || !*first) {
            co_return std::nullopt;
        }
        const std::string start(**first);
        const std::size_t space = start.find(' ');
        request.method = start.substr(0, space);
        request.target = start.substr(space + 1, start.rfind(' ') - space - 1);
        for (;;) {
            auto line = co_await reader_.line();
            if (!line || !*line) {
                co_return std::nullopt;
            }
            if ((*line)->empty()) {
                co_return request;
            }
            const std::size_t colon = (*line)->find(':');
            std::string name((*line)->substr(0, colon));
            for (char& c : name) {
                c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
            }
            const std::string_view value = (*line)->substr(colon + 1);
            request.fields.emplace(
                name, value.substr(std::min(value.find_first_not_of(' '), value.size())));
        }
    }

    /// The next request with its body. Answers an expectation of 100-continue.
    Task<std::optional<ReceivedRequest>> request() {
        auto request = co_await head();
        if (!request) {
            co_return std::nullopt;
        }
        if (request->has("expect")) {
            (void)co_await send("HTTP/1.1 100 Continue\r\n\r\n");
        }
        if (request->has("content-length")) {
            request->body.resize(std::stoul(request->field("content-length")));
            if (!co_await reader_.read_exactly(request->body)) {
                co_return std::nullopt;
            }
        } else if (request->has("transfer-encoding")) {
            for (;;) {
                const auto chunk = co_await this->chunk();
                if (!chunk) {
                    co_return std::nullopt;
                }
                if (chunk->empty()) {
                    break;
                }
                request->body += *chunk;
            }
        }
        co_return request;
    }

    /// A chunk of a body. Empty at the end of the body, none at the end of the connection.
    Task<std::optional<std::string>> chunk() {
        auto line = co_await reader_.line();
        if (!line || !*line) {
            co_return std::nullopt;
        }
        std::size_t size = 0;
        std::from_chars((*line)->data(), (*line)->data() + (*line)->size(), size, 16);
        std::string data(size + 2, ' ');
        if (!co_await reader_.read_exactly(data)) {
            co_return std::nullopt;
        }
        data.resize(size);
        co_return data;
    }

    Task<Result<>> send(std::string text) { co_return co_await stream_.write_all(text); }

    /// A response with Content-Length, and these lines in its head.
    Task<Result<>> respond(int status, std::string body = {}, std::string lines = {}) {
        co_return co_await send("HTTP/1.1 " + std::to_string(status) + " X\r\n" + lines +
                                "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
                                body);
    }

private:
    net::TcpStream stream_;
    std::size_t number_;
    BufReader<net::TcpStream&> reader_{stream_};
};

using ServeFunction = std::function<Task<>(ServedConnection&)>;

inline Task<> serve_connection(net::TcpStream stream, std::size_t number,
                               const ServeFunction& serve) {
    ServedConnection connection(std::move(stream), number);
    co_await serve(connection);
}

inline Task<> accept_connections(net::TcpListener& listener, Scope& scope,
                                 const ServeFunction& serve, std::size_t& count) {
    for (;;) {
        auto stream = co_await listener.accept();
        if (!stream) {
            co_return;
        }
        scope.spawn(serve_connection(std::move(*stream), count++, serve));
    }
}

/// What a test knows of its server.
struct ScriptedServer {
    std::string url; ///< "http://127.0.0.1:port"
    std::uint16_t port = 0;
    std::size_t connections = 0;
};

/// Runs `body(server)` while `serve(connection)` serves each connection.
template <typename Body> Task<> with_server(ServeFunction serve, Body body) {
    net::TcpListener listener = listen_on_loopback();
    ScriptedServer server;
    server.port = expect(listener.local_endpoint()).port();
    server.url = "http://127.0.0.1:" + std::to_string(server.port);
    expect(co_await with_scope([&](Scope& scope) -> Task<Result<>> {
        scope.spawn(accept_connections(listener, scope, serve, server.connections));
        co_await body(server);
        scope.cancel();
        co_return Result<>();
    }));
}

/// Runs `body(server)` beside a server. Both are kept until the end.
template <typename Body> void with(ServeFunction serve, Body body) {
    const Watchdog watchdog;
    run(with_server(std::move(serve), std::move(body)));
}

/// Answers every request with what `answer` returns.
inline ServeFunction answering(std::function<Task<>(ServedConnection&, ReceivedRequest)> answer) {
    return [answer = std::move(answer)](ServedConnection& connection) -> Task<> {
        while (auto request = co_await connection.request()) {
            co_await answer(connection, std::move(*request));
        }
    };
}

/// Tells the request.
inline Task<> describe(ServedConnection& connection, ReceivedRequest request) {
    (void)co_await connection.respond(200, request.method + " " + request.target + " [" +
                                               request.body + "]");
}

inline AsyncGenerator<std::string> words(std::vector<std::string> texts) {
    for (std::string& text : texts) {
        (void)co_await yield();
        co_yield std::move(text);
    }
}

} // namespace penstock::testing
