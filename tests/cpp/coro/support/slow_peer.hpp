// Clients of a server that read slowly, late or not at all.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <penstock/codec/websocket/frame.hpp>
#include <penstock/fs/file.hpp>
#include <penstock/http/server.hpp>
#include <penstock/net/tcp_listener.hpp>
#include <penstock/net/tcp_stream.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/stream/read_all.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/ws/upgrade.hpp>
#include <penstock/ws/web_socket.hpp>

#include "coro/support/tcp_pair.hpp"
#include "coro/ws/frames.hpp"
#include "support/temporary_folder.hpp"

namespace penstock::testing {

using namespace std::chrono_literals;

/// What each response of a `SlowSite` has, at least.
inline constexpr std::size_t slow_size = std::size_t{3} << 20;

/// A server that is patient for half a second, as long as the peer takes 50 kB/s.
inline http::ServerOptions patient_options() {
    http::ServerOptions options;
    options.timeouts.write = 500ms;
    options.timeouts.write_rate = 50'000;
    options.on_failure = [](const http::ServerFailure&) {};
    return options;
}

/// One that ends a peer which takes nothing for a tenth of a second. No progress adds to that.
inline http::ServerOptions strict_options() {
    http::ServerOptions options = patient_options();
    options.timeouts.write = 100ms;
    options.timeouts.write_rate = 1'000'000'000;
    return options;
}

/// A server with one route for each way to send.
class SlowSite {
public:
    explicit SlowSite(http::ServerOptions options) : server(std::move(options)) {
        folder_.fill("large", std::string(slow_size, 'f'));
        expect(server.files("/files", folder_.path("")));
        server.get("/body", [](http::Request&, http::Response& response) {
            response.body(std::string(slow_size, 'b'));
        });
        server.get("/parts", [this](http::Request&, http::Response& response) {
            return noting(parts(response));
        });
        ws::AcceptOptions accept;
        const http::ServerTimeouts& timeouts = options.timeouts;
        accept.limits.write = timeouts.write;
        accept.limits.write_rate = timeouts.write_rate;
        accept.limits.close = 100ms;
        const auto route = [&](std::string_view path, auto handler) {
            server.upgrade(
                path, "websocket",
                ws::upgrade_handler(
                    [this, handler](ws::WebSocket& socket) { return noting(handler(socket)); },
                    accept));
        };
        route("/push", &push);
        route("/echo", &echo);
        route("/receive", &receive);
    }

    http::Server server;
    /// Of the last handler that has returned.
    std::error_code error;

private:
    Task<Result<>> noting(Task<Result<>> handler) {
        const Result<> handled = co_await std::move(handler);
        error = handled ? std::error_code() : handled.error();
        co_return handled;
    }

    static Task<Result<>> parts(http::Response& response) {
        const std::string part(std::size_t{64} << 10, 'p');
        for (std::size_t sent = 0; sent < slow_size; sent += part.size()) {
            co_await unwrap(response.write_all(part));
        }
        co_return Result<>();
    }

    static Task<Result<>> push(ws::WebSocket& socket) {
        const std::string part(std::size_t{64} << 10, 'm');
        for (std::size_t sent = 0; sent < slow_size; sent += part.size()) {
            co_await unwrap(socket.send_text(part));
        }
        co_return Result<>();
    }

    static Task<Result<>> echo(ws::WebSocket& socket) {
        for (;;) {
            const ws::Message message = co_await unwrap(socket.receive());
            co_await unwrap(socket.send(message));
        }
    }

    static Task<Result<>> receive(ws::WebSocket& socket) {
        for (;;) {
            (void)co_await unwrap(socket.receive());
        }
    }

    TemporaryFolder folder_;
};

/// The request for a path, of a WebSocket where the route is one.
inline std::string request_for(std::string_view path) {
    return "GET " + std::string(path) +
           " HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
}

/// A connection whose receive buffer is small, so that the kernel acknowledges in small steps.
inline Task<net::TcpStream> connect_narrow(net::Endpoint endpoint) {
    OwnedDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int size = 8192;
    EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &size, sizeof size), 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(endpoint.port());
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    co_return expect(net::TcpStream::adopt(std::move(socket)));
}

/// A listener whose connections have a large send buffer of a fixed size: the kernel calls them
/// writable when a third of it is free.
inline net::TcpListener listen_wide() {
    net::TcpListener listener = listen_on_loopback();
    const int size = 212'992;
    EXPECT_EQ(::setsockopt(listener.native_handle(), SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
    return listener;
}

/// Reads slowly for longer than the server is patient, and then the rest, until all is there or the
/// stream ends. Returns the size. Far too
/// little for the kernel to report room in that time, and four times the server's least rate.
template <typename S> Task<Result<std::size_t>> read_steadily(S& stream) {
    std::size_t size = 0;
    std::vector<std::byte> bytes(10'000);
    for (int i = 0; i < 24; ++i) { // 200 kB/s
        size += co_await unwrap(stream.read(MutableBytes(bytes)));
        co_await unwrap(sleep_for(50ms));
    }
    while (size < slow_size) {
        const std::size_t count = co_await unwrap(stream.read(MutableBytes(bytes)));
        if (count == 0) {
            break;
        }
        size += count;
    }
    co_return size;
}

/// Waits until a server has no more connections than before.
inline Task<void> until_gone(http::Server& server, std::size_t before) {
    while (server.connections() > before) {
        (void)co_await sleep_for(5ms);
    }
}

} // namespace penstock::testing
