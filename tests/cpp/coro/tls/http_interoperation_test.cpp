// The HTTP server with curl over TLS, behind an nginx that ends TLS, and behind one that does not.

#include <penstock/http/server.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include <penstock/net/unix_stream.hpp>
#include <penstock/process/command.hpp>
#include <penstock/stream/read_all.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/tls/encryption.hpp>
#include <penstock/ws/upgrade.hpp>
#include <penstock/ws/web_socket.hpp>

#include "coro/support/nginx.hpp"
#include "coro/tls/tls_test.hpp"

namespace {

using namespace std::chrono_literals;
using namespace penstock;
using http::Request;
using http::Response;
using penstock::testing::expect;
using penstock::testing::Nginx;

Task<Result<>> echo(ws::WebSocket& socket) {
    for (;;) {
        const ws::Message message = co_await unwrap(socket.receive());
        co_await unwrap(socket.send(message));
    }
}

Task<Result<AnyStream>> unencrypted(net::TcpStream stream) {
    co_return AnyStream(std::move(stream));
}

class HttpInteroperation : public penstock::testing::TlsTest {
protected:
    HttpInteroperation() {
        site_.get("/", [](Request& request, Response& response) {
            response.body("scheme " + std::string(request.header("Scheme").value_or("none")));
        });
        site_.post("/echo", [](Request& request, Response& response) -> Task<Result<>> {
            response.body(co_await unwrap(request.text()));
            co_return Result<>();
        });
        site_.upgrade("/socket", "websocket", ws::upgrade_handler(echo));
    }

    /// Runs `talk(endpoint)` beside the server.
    template <typename Prepare, typename Talk> void serve(Prepare prepare, Talk talk) {
        const auto talking = [&](net::Endpoint endpoint) -> Task<Result<>> {
            co_await talk(endpoint);
            site_.stop(1h);
            co_return Result<>();
        };
        const auto program = [&]() -> Task<> {
            net::TcpListener listener = penstock::testing::listen_on_loopback();
            const net::Endpoint endpoint = expect(listener.local_endpoint());
            expect(co_await all(site_.serve(std::move(listener), prepare), talking(endpoint)));
        };
        run(program());
    }

    /// What curl writes. It trusts the authority only.
    Task<std::string> curl(std::string_view url, std::string input,
                           std::initializer_list<std::string_view> options) {
        process::Command command("/usr/bin/curl");
        command.arguments({"-q", "--silent", "--show-error", "--max-time", "50", "--cacert"});
        command.argument(authority.file());
        command.arguments(options);
        command.argument(std::string(url));
        process::Output output = expect(co_await command.output(std::move(input)));
        EXPECT_EQ(output.status, process::ExitStatus::exited(0)) << output.error;
        co_return std::move(output.output);
    }

    http::Server site_{{.http2 = true}};
    Nginx nginx_;
};

TEST_F(HttpInteroperation, CurlUsesTheProtocolThatIsOffered) {
    if (!std::filesystem::exists("/usr/bin/curl")) {
        GTEST_SKIP() << "curl is not installed; scripts/setup test installs it.";
    }
    serve(
        tls::server_encryption(server({.alpn = {"http/1.1"}})),
        [&](net::Endpoint endpoint) -> Task<void> {
            const std::string url = "https://localhost:" + std::to_string(endpoint.port());
            // It offers h2 first.
            EXPECT_EQ(co_await curl(url + "/", "", {"-w", " %{http_version} %{ssl_verify_result}"}),
                      "scheme none 1.1 0");
            const std::string body(500'000, 'c');
            EXPECT_TRUE(co_await curl(url + "/echo", body,
                                      {"--tls-max", "1.2", "-X", "POST", "-T", "-"}) == body);
            EXPECT_TRUE(co_await curl(url + "/echo", body, {"--tlsv1.3", "--data-binary", "@-"}) ==
                        body);
        });
}

TEST_F(HttpInteroperation, CurlSpeaksHttp2OverTls) {
    if (!std::filesystem::exists("/usr/bin/curl")) {
        GTEST_SKIP() << "curl is not installed; scripts/setup test installs it.";
    }
    serve(tls::server_encryption(server({.alpn = {"h2", "http/1.1"}})),
          [&](net::Endpoint endpoint) -> Task<void> {
              const std::string url = "https://localhost:" + std::to_string(endpoint.port());
              EXPECT_EQ(co_await curl(url + "/", "", {"-w", " %{http_version}"}), "scheme none 2");
              EXPECT_EQ(co_await curl(url + "/", "", {"--http1.1", "-w", " %{http_version}"}),
                        "scheme none 1.1");
              const std::string body(500'000, 'c');
              EXPECT_TRUE(co_await curl(url + "/echo", body, {"--data-binary", "@-"}) == body);
          });
}

/// What a browser behind the proxy would do.
template <typename S> Task<void> talk_through(S stream) {
    expect(co_await stream.write_all("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    std::string answer;
    while (!answer.ends_with("scheme https")) {
        std::array<char, 256> bytes{};
        const std::size_t size = expect(co_await stream.read(bytes));
        if (size == 0) {
            throw std::runtime_error("the stream ends after: " + answer);
        }
        answer.append(bytes.data(), size);
    }
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    auto socket =
        expect(co_await ws::BasicWebSocket<S>::connect(std::move(stream), "a", "/socket"));
    for (const std::size_t size : {1, 126, 70'000}) {
        const std::string text(size, 'w');
        expect(co_await socket.send_text(text));
        EXPECT_TRUE(expect(co_await socket.receive()).text() == text) << size;
    }
    expect(co_await socket.close());
}

std::string location(std::string_view upstream) {
    return "location / { proxy_pass " + std::string(upstream) +
           "; proxy_http_version 1.1; proxy_set_header Connection $connection_value;\n"
           "proxy_set_header Upgrade $http_upgrade; proxy_set_header Scheme https; }\n";
}

constexpr std::string_view connection_value =
    "map $http_upgrade $connection_value { default upgrade; '' ''; }\n";

TEST_F(HttpInteroperation, NginxEndsTls) {
    if (!Nginx::is_installed()) {
        GTEST_SKIP() << "nginx is not installed; scripts/setup test installs it.";
    }
    serve(unencrypted, [&](net::Endpoint endpoint) -> Task<void> {
        const tls::Identity identity = authority.sign("DNS:localhost");
        co_await nginx_.start("ssl_certificate " + identity.certificate_chain_file +
                                  "; ssl_certificate_key " + identity.private_key_file + ";\n" +
                                  location("http://" + endpoint.to_string()),
                              connection_value, "ssl");
        net::UnixStream lower = expect(
            co_await net::UnixStream::connect(expect(net::UnixEndpoint::path(nginx_.socket()))));
        co_await talk_through(expect(co_await tls::Stream<net::UnixStream>::connect(
            std::move(lower), client(), "localhost")));
    });
}

TEST_F(HttpInteroperation, NginxEncryptsToTheServer) {
    if (!Nginx::is_installed()) {
        GTEST_SKIP() << "nginx is not installed; scripts/setup test installs it.";
    }
    serve(tls::server_encryption(server()), [&](net::Endpoint endpoint) -> Task<void> {
        co_await nginx_.start(location("https://" + endpoint.to_string()) +
                                  "proxy_ssl_verify on; proxy_ssl_name localhost;\n"
                                  "proxy_ssl_trusted_certificate " +
                                  authority.file() + ";\n",
                              connection_value);
        co_await talk_through(expect(
            co_await net::UnixStream::connect(expect(net::UnixEndpoint::path(nginx_.socket())))));
    });
}

} // namespace
