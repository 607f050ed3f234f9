#pragma once

// Servers of HTTP and of WebSockets as one: how they accept connections is the same.

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/socket.h>

#include <penstock/http/server.hpp>
#include <penstock/net/tcp_listener.hpp>
#include <penstock/net/tcp_stream.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/stream/any_stream.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/ws/server.hpp>

#include "coro/support/tcp_pair.hpp"
#include "coro/ws/request.hpp"

namespace penstock::testing {

using Prepare = std::function<Task<Result<AnyStream>>(net::TcpStream)>;

struct SubjectOptions {
    std::size_t connections = 100;
    std::chrono::milliseconds safe_idle = std::chrono::hours(1);
    /// What an accepted connection does before it is served.
    Prepare prepare = [](net::TcpStream stream) -> Task<Result<AnyStream>> {
        co_return AnyStream(std::move(stream));
    };
    /// What a served connection does.
    std::function<Task<void>()> work = []() -> Task<void> { co_return; };
};

/// A server of either kind. Each connection is asked something, works, and answers.
class Subject {
public:
    Subject() = default;
    Subject(const Subject&) = delete;
    Subject& operator=(const Subject&) = delete;
    virtual ~Subject() = default;

    virtual Task<Result<>> serve() = 0;
    virtual void stop() = 0;
    [[nodiscard]] virtual std::size_t connections() const = 0;
    [[nodiscard]] virtual net::Endpoint endpoint() const = 0;
    /// Asks, and returns whether there was an answer.
    virtual Task<bool> ask(net::TcpStream& stream) = 0;

    void fail(std::error_code error, const std::exception_ptr& exception) {
        failures.push_back(http::ServerFailure{.error = error, .exception = exception}.to_string());
        failed.set();
    }

    std::vector<std::string> failures;
    sync::Event failed;
};

class HttpSubject final : public Subject {
public:
    explicit HttpSubject(SubjectOptions options)
        : options_(std::move(options)), server_(settings()), listener_(listen_on_loopback()),
          endpoint_(expect(listener_.local_endpoint())) {
        server_.get("/", [this](http::Request&, http::Response& response) -> Task<void> {
            co_await options_.work();
            response.body("answer");
        });
    }

    Task<Result<>> serve() override {
        return server_.serve(std::move(listener_), options_.prepare);
    }
    void stop() override { server_.stop(std::chrono::hours(1)); }
    [[nodiscard]] std::size_t connections() const override { return server_.connections(); }
    [[nodiscard]] net::Endpoint endpoint() const override { return endpoint_; }

    Task<bool> ask(net::TcpStream& stream) override {
        (void)co_await stream.write_all("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        std::string text;
        std::array<char, 1> next{};
        while (!text.ends_with("answer") && !text.ends_with("Internal Server Error\n")) {
            if ((co_await stream.read(next)).value_or(0) == 0) {
                co_return false;
            }
            text += next[0];
        }
        co_return text.starts_with("HTTP/1.1 200 ");
    }

    /// Another listener of the same server.
    Task<Result<>> serve(net::TcpListener listener) {
        return server_.serve(std::move(listener), options_.prepare);
    }

private:
    http::ServerOptions settings() {
        http::ServerOptions settings;
        settings.limits.connections = options_.connections;
        settings.timeouts.safe_idle = options_.safe_idle;
        settings.on_failure = [this](const http::ServerFailure& failure) {
            fail(failure.error, failure.exception);
        };
        return settings;
    }

    SubjectOptions options_;
    http::Server server_;
    net::TcpListener listener_;
    net::Endpoint endpoint_;
};

class WebSocketSubject final : public Subject {
public:
    explicit WebSocketSubject(const SubjectOptions& options)
        : work_(options.work), server_(listen_on_loopback(), settings(options)) {}

    Task<Result<>> serve() override {
        return server_.serve([this](ws::WebSocket& socket) -> Task<Result<>> {
            co_await work_();
            co_await unwrap(socket.send_text("answer"));
            for (;;) {
                const ws::Message message = co_await unwrap(socket.receive());
                co_await unwrap(socket.send(message));
            }
        });
    }
    void stop() override { server_.shutdown(std::chrono::hours(1)); }
    [[nodiscard]] std::size_t connections() const override { return server_.connections(); }
    [[nodiscard]] net::Endpoint endpoint() const override {
        return expect(server_.local_endpoint());
    }

    /// The first time by the handshake, then by a message.
    Task<bool> ask(net::TcpStream& stream) override {
        const bool first = shaken_.insert(expect(stream.local_endpoint()).port()).second;
        (void)co_await stream.write_all(
            first ? std::string_view(request)
                  : std::string_view("\x81\x86\0\0\0\0answer", 12)); // masked with zeros
        std::string text;
        std::array<char, 1> next{};
        while (!text.ends_with("\x81\x06"
                               "answer")) {
            if ((co_await stream.read(next)).value_or(0) == 0) {
                co_return false;
            }
            text += next[0];
        }
        co_return true;
    }

private:
    ws::ServerOptions settings(const SubjectOptions& options) {
        return {.accept = {.limits = {.close = std::chrono::milliseconds(
                                          20)}}, // the clients answer no close frame
                .encrypt = options.prepare,
                .maximum_connections = options.connections,
                .on_error = [this](std::error_code error) { fail(error, nullptr); },
                .on_exception =
                    [this](const std::exception_ptr& thrown) { fail(std::error_code(), thrown); }};
    }

    std::function<Task<void>()> work_;
    std::set<std::uint16_t> shaken_; ///< the ports of clients that have made the handshake
    ws::Server server_;
};

/// A client that the kernel has connected, and that nobody has accepted: the loop has not run.
inline net::TcpStream connected_by_kernel(const net::Endpoint& endpoint) {
    OwnedDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), endpoint.native(), endpoint.native_size()) != 0) {
        throw std::system_error(errno, std::system_category(), "connect");
    }
    return expect(net::TcpStream::adopt(std::move(socket)));
}

} // namespace penstock::testing
