// The connections of http::Client: kept, limited, made again, and ended.

#include <penstock/http/client.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include "coro/http_client/scripted_server.hpp"
#include "support/descriptors.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::http::Client;
using penstock::http::ClientOptions;
using penstock::http::RequestBody;
using penstock::testing::answering;
using penstock::testing::describe;
using penstock::testing::expect;
using penstock::testing::ReceivedRequest;
using penstock::testing::ScriptedServer;
using penstock::testing::ServedConnection;
using penstock::testing::Watchdog;
using penstock::testing::with;
using penstock::testing::with_server;
using penstock::testing::words;

TEST(HttpClientConnections, KeepsAConnectionForLaterRequests) {
    with(answering(describe), [](const ScriptedServer& server) -> Task<> {
        Client client;
        for (int i = 0; i < 5; ++i) {
            expect(co_await client.get(server.url + "/"));
        }
        EXPECT_EQ(server.connections, 1U);
    });
}

TEST(HttpClientConnections, MayOutliveItsLoop) {
    const Watchdog watchdog;
    const std::size_t descriptors = penstock::testing::open_descriptors();
    {
        Client client;
        for (int i = 0; i < 2; ++i) {
            run(with_server(answering(describe), [&](const ScriptedServer& server) -> Task<> {
                EXPECT_TRUE(co_await client.get(server.url));
            }));
        }
    }
    EXPECT_EQ(penstock::testing::open_descriptors(), descriptors);
}

TEST(HttpClientConnections, LimitsConnections) {
    std::size_t open = 0;
    std::size_t most = 0;
    with(answering([&](ServedConnection& connection, ReceivedRequest /*request*/) -> Task<> {
             most = std::max(most, ++open);
             (void)co_await penstock::sleep_for(2ms);
             --open;
             (void)co_await connection.respond(200);
         }),
         [&](const ScriptedServer& server) -> Task<> {
             Client client(ClientOptions{.connections_per_host = 3});
             expect(co_await penstock::for_each_concurrent(
                 std::vector<int>(30), 30, [&](int) -> Task<Result<>> {
                     co_await penstock::unwrap(client.get(server.url));
                     co_return Result<>();
                 }));
             EXPECT_EQ(most, 3U);
             EXPECT_LE(server.connections, 3U);
         });
}

TEST(HttpClientConnections, RepeatsARequestOnAConnectionThatWasClosed) {
    with(
        [](ServedConnection& connection) -> Task<> {
            const auto request = co_await connection.request();
            if (request && connection.number() == 0) {
                (void)co_await connection.respond(200, "first");
                (void)co_await connection.head(); // closes when the next request comes
                co_return;
            }
            (void)co_await connection.respond(200, request->body);
        },
        [](const ScriptedServer& server) -> Task<> {
            Client client;
            EXPECT_EQ(expect(co_await client.get(server.url)).body, "first");
            const auto make = [] { return words({"a", "b"}); };
            EXPECT_EQ(
                expect(co_await client.post(server.url, RequestBody::repeatable(make, 2))).body,
                "ab");
            EXPECT_EQ(server.connections, 2U);
        });
}

TEST(HttpClientConnections, RepeatsATextOnAConnectionThatWasClosed) {
    with(
        [](ServedConnection& connection) -> Task<> {
            const auto request = co_await connection.request();
            if (request && connection.number() == 0) {
                (void)co_await connection.respond(200, "first");
                (void)co_await connection.head();
                co_return;
            }
            (void)co_await connection.respond(200, request->body);
        },
        [](const ScriptedServer& server) -> Task<> {
            Client client;
            EXPECT_EQ(expect(co_await client.get(server.url)).body, "first");
            EXPECT_EQ(expect(co_await client.post(server.url, "text")).body, "text");
            EXPECT_EQ(server.connections, 2U);
        });
}

TEST(HttpClientConnections, TakesNothingForAResponseThatCameBeforeItsRequest) {
    penstock::sync::Event first_is_read;
    penstock::sync::Event second_is_sent;
    with(
        [&](ServedConnection& connection) -> Task<> {
            const auto request = co_await connection.request();
            if (request && connection.number() == 0) {
                (void)co_await connection.respond(200, "first");
                (void)co_await first_is_read.wait();
                (void)co_await connection.respond(200, "nobody asked");
                second_is_sent.set();
                (void)co_await connection.head();
                co_return;
            }
            (void)co_await connection.respond(200, request ? request->body : "nothing");
        },
        [&](const ScriptedServer& server) -> Task<> {
            Client client;
            EXPECT_EQ(expect(co_await client.get(server.url)).body, "first");
            first_is_read.set();
            (void)co_await second_is_sent.wait();
            EXPECT_EQ(expect(co_await client.post(server.url, "asked")).body, "asked");
            EXPECT_EQ(server.connections, 2U);
        });
}

} // namespace
