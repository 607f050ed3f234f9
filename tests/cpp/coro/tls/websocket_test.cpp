// WebSocket over TLS (wss).

#include <penstock/tls/encryption.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <gtest/gtest.h>

#include <penstock/stream/read_all.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/ws/server.hpp>
#include <penstock/ws/web_socket.hpp>

#include "coro/support/tcp_pair.hpp"
#include "coro/tls/certificates.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::unwrap;
using penstock::net::Endpoint;
using penstock::net::TcpStream;
using penstock::testing::Authority;
using penstock::testing::expect;
using penstock::testing::Watchdog;
using penstock::tls::Context;
using penstock::ws::Message;
using penstock::ws::Server;
using penstock::ws::WebSocket;

Task<Result<>> echo(WebSocket& socket) {
    for (;;) {
        const Message message = co_await unwrap(socket.receive());
        co_await unwrap(socket.send(message));
    }
}

class WebSocketOverTls : public ::testing::Test {
protected:
    Server listen(penstock::ws::AcceptOptions accept = {}) {
        return expect(
            Server::listen(Endpoint::loopback(0),
                           {.accept = std::move(accept),
                            .encrypt = penstock::tls::server_encryption(expect(
                                Context::server({.identity = authority.sign("DNS:localhost")})))}));
    }

    [[nodiscard]] penstock::ws::ConnectOptions trusting() const {
        return {.encrypt = penstock::tls::client_encryption(
                    expect(Context::client({.authorities_file = authority.file()})))};
    }

    static std::string url_of(const Server& server) {
        return "wss://localhost:" + std::to_string(expect(server.local_endpoint()).port());
    }

    Authority authority;
};

TEST_F(WebSocketOverTls, EchoesAndCloses) {
    const Watchdog watchdog;
    const auto program = [&]() -> Task<> {
        Server server = listen();
        const auto asking = [&]() -> Task<Result<>> {
            WebSocket socket =
                co_await unwrap(WebSocket::connect(url_of(server) + "/chat", trusting()));
            for (const std::size_t size : {0, 1, 126, 20'000, 1 << 20}) {
                const std::string text(size, 'x');
                const auto receiving = [&]() -> Task<Result<>> {
                    EXPECT_TRUE((co_await unwrap(socket.receive())).text() == text) << size;
                    co_return Result<>();
                };
                co_await unwrap(penstock::all(socket.send_text(text), receiving()));
            }
            co_await unwrap(socket.close());
            server.shutdown();
            co_return Result<>();
        };
        expect(co_await penstock::all(server.serve(echo), asking()));
    };
    run(program());
}

TEST_F(WebSocketOverTls, VerifiesTheServerAndNeedsEncryption) {
    const Watchdog watchdog;
    const auto program = [&]() -> Task<> {
        Server server = listen();
        const auto asking = [&]() -> Task<Result<>> {
            EXPECT_EQ((co_await WebSocket::connect(url_of(server))).error(),
                      std::errc::protocol_not_supported);
            const auto refused = co_await WebSocket::connect(
                url_of(server),
                {.encrypt = penstock::tls::client_encryption(expect(Context::client()))});
            EXPECT_EQ(&refused.error().category(), &penstock::tls::certificate_category());
            server.shutdown();
            co_return Result<>();
        };
        expect(co_await penstock::all(server.serve(echo), asking()));
    };
    run(program());
}

TEST_F(WebSocketOverTls, ARefusedClientGetsTheEndOfTheEncryptedStream) {
    const Watchdog watchdog;
    const auto program = [&]() -> Task<> {
        Server server = listen();
        const auto asking = [&]() -> Task<Result<>> {
            auto stream = co_await unwrap(penstock::tls::Stream<TcpStream>::connect(
                co_await unwrap(TcpStream::connect(expect(server.local_endpoint()))),
                expect(Context::client({.authorities_file = authority.file()})), "localhost"));
            co_await unwrap(stream.write_all("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
            const Result<std::string> answer = co_await penstock::read_all_text(stream);
            EXPECT_TRUE(answer) << answer.error().message();
            EXPECT_TRUE(answer.value_or("").starts_with("HTTP/1.1 426 "));
            server.shutdown();
            co_return Result<>();
        };
        expect(co_await penstock::all(server.serve(echo), asking()));
    };
    run(program());
}

TEST_F(WebSocketOverTls, ASilentPeerIsPinged) {
    const Watchdog watchdog;
    const auto program = [&]() -> Task<> {
        Server server = listen({.limits = {.ping_interval = 1ms, .ping_timeout = 1h}});
        const auto asking = [&]() -> Task<Result<>> {
            WebSocket socket = co_await unwrap(WebSocket::connect(url_of(server), trusting()));
            EXPECT_EQ((co_await penstock::timeout(20ms, socket.receive())).error(),
                      std::errc::timed_out);
            co_await unwrap(socket.send_text("still open"));
            EXPECT_EQ((co_await unwrap(socket.receive())).text(), "still open");
            co_await unwrap(socket.close());
            server.shutdown();
            co_return Result<>();
        };
        expect(co_await penstock::all(server.serve(echo), asking()));
    };
    run(program());
}

/// A connection through a proxy, which refuses it first. The one to the proxy may be encrypted.
class WebSocketThroughAProxy : public WebSocketOverTls,
                               public ::testing::WithParamInterface<bool> {};

INSTANTIATE_TEST_SUITE_P(WebSocketOverTls, WebSocketThroughAProxy, ::testing::Bool());

TEST_P(WebSocketThroughAProxy, IsEncryptedToTheServer) {
    const Watchdog watchdog;
    const auto program = [&]() -> Task<> {
        Server server = listen();
        penstock::net::TcpListener listener = penstock::testing::listen_on_loopback();
        const std::string port = std::to_string(expect(server.local_endpoint()).port());
        const auto encrypt = penstock::tls::server_encryption(
            expect(Context::server({.identity = authority.sign("IP:127.0.0.1")})));
        const auto forward = [](auto& from, auto& to) -> Task<Result<>> {
            std::array<char, 10'000> part{};
            for (;;) {
                const std::size_t count = co_await unwrap(from.read(part));
                if (count == 0) {
                    if constexpr (requires {
                                      requires penstock::Awaitable<decltype(to.shutdown())>;
                                  }) {
                        (void)co_await to.shutdown();
                    } else {
                        (void)to.shutdown();
                    }
                    co_return Result<>();
                }
                co_await unwrap(to.write_all(std::string_view(part.data(), count)));
            }
        };
        const auto proxying = [&]() -> Task<Result<>> {
            for (const bool refuses : {true, false}) {
                penstock::AnyStream client = co_await unwrap(listener.accept());
                if (GetParam()) {
                    client = co_await unwrap(encrypt(std::move(*client.tcp())));
                }
                std::array<char, 1> byte{};
                std::string head;
                while (!head.ends_with("\r\n\r\n")) {
                    head.append(byte.data(), co_await unwrap(client.read(byte)));
                }
                std::string expected = "CONNECT localhost:";
                expected.append(port).append(" HTTP/1.1\r\nHost: localhost:").append(port);
                expected.append("\r\nProxy-Authorization: Basic YTpiOmM=\r\n\r\n");
                EXPECT_EQ(head, expected);
                if (refuses) {
                    co_await unwrap(client.write_all(std::string_view("HTTP/1.1 407 Who\r\n\r\n")));
                    continue;
                }
                TcpStream target =
                    co_await unwrap(TcpStream::connect(expect(server.local_endpoint())));
                co_await unwrap(
                    client.write_all(std::string_view("HTTP/1.1 200 Connected\r\n\r\n")));
                // The client closes its connection to the proxy without the end of TLS.
                (void)co_await penstock::all(forward(client, target), forward(target, client));
            }
            co_return Result<>();
        };
        const auto asking = [&]() -> Task<Result<>> {
            penstock::ws::ConnectOptions options = trusting();
            options.proxy = std::string(GetParam() ? "https" : "http") + "://a:b%3ac@127.0.0.1:" +
                            std::to_string(expect(listener.local_endpoint()).port()) + "/";
            int status = 0;
            options.on_refusal = [&status](const auto& head) { status = head.status; };
            EXPECT_EQ((co_await WebSocket::connect(url_of(server), options)).error(),
                      penstock::ws::Error::proxy_refused);
            EXPECT_EQ(status, 407);
            {
                WebSocket socket = co_await unwrap(WebSocket::connect(url_of(server), options));
                co_await unwrap(socket.send_text("through"));
                EXPECT_EQ((co_await unwrap(socket.receive())).text(), "through");
                co_await unwrap(socket.close());
            }
            server.shutdown();
            co_return Result<>();
        };
        expect(co_await penstock::all(server.serve(echo), proxying(), asking()));
    };
    run(program());
}

} // namespace
