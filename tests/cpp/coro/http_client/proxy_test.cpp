// http::Client through proxies: plain HTTP, tunnels, SOCKS 5, and what names them.

#include <penstock/http/client.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "coro/http_client/scripted_server.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::all_settled;
using penstock::run;
using penstock::Task;
using penstock::http::Client;
using penstock::http::ClientError;
using penstock::http::ClientOptions;
using penstock::net::Endpoint;
using penstock::net::TcpStream;
using penstock::testing::answering;
using penstock::testing::expect;
using penstock::testing::ReceivedRequest;
using penstock::testing::ScriptedServer;
using penstock::testing::ServedConnection;
using penstock::testing::Watchdog;
using penstock::testing::with_server;

Task<> tell(ServedConnection& connection, ReceivedRequest request) {
    (void)co_await connection.respond(200, request.method + " " + request.target + " " +
                                               request.field("proxy-authorization"));
}

template <typename From, typename To> Task<> forward(From& from, To& to) {
    (void)co_await penstock::copy(from, to);
    (void)to.shutdown();
}

/// Speaks SOCKS 5 (RFC 1928) for IPv4 addresses and no authentication.
Task<> serve_socks(ServedConnection& connection) {
    std::array<unsigned char, 3> greeting{};
    (void)co_await connection.reader().read_exactly(greeting);
    std::string methods(greeting[1] - std::size_t{1}, ' ');
    (void)co_await connection.reader().read_exactly(methods);
    (void)co_await connection.send(std::string("\x05\x00", 2));
    std::array<unsigned char, 10> request{};
    if (!co_await connection.reader().read_exactly(request)) {
        co_return;
    }
    const auto port = static_cast<std::uint16_t>(request[8] * 256 + request[9]);
    auto server = co_await TcpStream::connect(Endpoint::loopback(port));
    if (!server) {
        co_return;
    }
    (void)co_await connection.send(std::string("\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00", 10));
    co_await all_settled(forward(connection.reader(), *server),
                         forward(*server, connection.stream()));
}

TEST(HttpClientProxy, AsksAProxyForTheWholeUrl) {
    const Watchdog watchdog;
    run(with_server(answering(tell), [](const ScriptedServer& proxy) -> Task<> {
        std::string url = proxy.url;
        url.insert(7, "user:pass@");
        Client client(ClientOptions{.proxy = {.url = url, .except = "direct.invalid"}});
        EXPECT_EQ(expect(co_await client.get("http://name.invalid/a")).body,
                  "GET http://name.invalid/a Basic dXNlcjpwYXNz");
        EXPECT_EQ((co_await client.get("http://direct.invalid/a")).error(),
                  ClientError::name_not_resolved);
    }));
}

TEST(HttpClientProxy, TellsThatAProxyRefusesATunnel) {
    const Watchdog watchdog;
    run(with_server(answering([](ServedConnection& connection, ReceivedRequest request) -> Task<> {
                        EXPECT_EQ(request.method, "CONNECT");
                        EXPECT_EQ(request.target, "name.invalid:443");
                        (void)co_await connection.respond(403, "no");
                    }),
                    [](const ScriptedServer& proxy) -> Task<> {
                        Client client(ClientOptions{.proxy = {.url = proxy.url}});
                        const auto refused = co_await client.get("https://name.invalid/");
                        EXPECT_EQ(refused.error(), ClientError::proxy_failed);
                    }));
}

TEST(HttpClientProxy, GoesThroughSocks) {
    const Watchdog watchdog;
    run(with_server(answering(tell), [](const ScriptedServer& server) -> Task<> {
        co_await with_server(serve_socks, [&](const ScriptedServer& proxy) -> Task<> {
            Client client(ClientOptions{
                .proxy = {.url = "socks5://127.0.0.1:" + std::to_string(proxy.port)}});
            EXPECT_EQ(expect(co_await client.get(server.url + "/a")).body, "GET /a (none)");
            EXPECT_EQ(proxy.connections, 1U);
        });
    }));
}

TEST(HttpClientProxy, TakesTheEnvironmentOnlyIfAsked) {
    const Watchdog watchdog;
    run(with_server(answering(tell), [](const ScriptedServer& proxy) -> Task<> {
        ::setenv("http_proxy", proxy.url.c_str(), 1);
        ::setenv("no_proxy", "direct.invalid", 1);
        Client asked(ClientOptions{.proxy = {.from_environment = true}});
        EXPECT_EQ(expect(co_await asked.get("http://name.invalid/a")).body,
                  "GET http://name.invalid/a (none)");
        EXPECT_EQ((co_await asked.get("http://direct.invalid/")).error(),
                  ClientError::name_not_resolved);
        Client not_asked;
        EXPECT_EQ((co_await not_asked.get("http://name.invalid/a")).error(),
                  ClientError::name_not_resolved);
        ::unsetenv("http_proxy");
        ::unsetenv("no_proxy");
    }));
}

} // namespace
