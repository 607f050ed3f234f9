// Requests of http::Client are cancelled at random moments and at each of their awaits. Nothing
// leaks, and the client works afterwards.

#include <penstock/http/client.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "coro/http_client/scripted_server.hpp"
#include "coro/support/logs.hpp"
#include "support/descriptors.hpp"
#include "support/stress.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::AsyncGenerator;
using penstock::race;
using penstock::Result;
using penstock::run;
using penstock::Scope;
using penstock::Task;
using penstock::unwrap;
using penstock::http::Client;
using penstock::http::ClientError;
using penstock::http::ClientOptions;
using penstock::http::ClientRequest;
using penstock::http::ClientResponse;
using penstock::http::Method;
using penstock::http::RequestBody;
using penstock::testing::expect;
using penstock::testing::open_descriptors;
using penstock::testing::ReceivedRequest;
using penstock::testing::ScriptedServer;
using penstock::testing::ServedConnection;
using penstock::testing::Stress;
using penstock::testing::turns;
using penstock::testing::Watchdog;
using penstock::testing::with_server;

/// Echoes a body in chunks, redirects, sends much, or hangs up.
Task<> serve(ServedConnection& connection) {
    while (const auto request = co_await connection.request()) {
        if (request->target == "/redirect") {
            (void)co_await connection.respond(307, "moved", "Location: /echo\r\n");
        } else if (request->target == "/large") {
            (void)co_await connection.respond(200, std::string(300'000, 'x'));
        } else if (request->target == "/truncated") {
            (void)co_await connection.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab");
            co_return;
        } else {
            (void)co_await connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            (void)co_await penstock::yield();
            (void)co_await connection.send("2\r\nok\r\n0\r\n\r\n");
        }
    }
}

AsyncGenerator<std::string> parts() {
    for (int i = 0; i < 3; ++i) {
        (void)co_await penstock::yield();
        co_yield std::string(1000, 'p');
    }
}

/// One request, whose body is read in pieces, with a pause before each.
Task<Result<std::size_t>> ask(Client& client, std::string url, unsigned kind,
                              std::chrono::microseconds pause = {}) {
    constexpr const char* targets[] = {"/echo", "/redirect", "/large", "/truncated"};
    ClientRequest request{.url = url + targets[kind % 4]};
    if (kind % 3 == 1) {
        request.method = Method::post;
        request.body = RequestBody::repeatable(&parts);
    } else if (kind % 3 == 2) {
        request.method = Method::put;
        request.body = std::string(5000, 'b');
    }
    ClientResponse response = co_await unwrap(client.send(std::move(request)));
    std::string part(7000, ' ');
    std::size_t total = 0;
    for (;;) {
        if (pause.count() > 0) {
            co_await unwrap(penstock::sleep_for(pause));
        }
        const std::size_t count = co_await unwrap(response.read(part));
        if (count == 0) {
            co_return total;
        }
        total += count;
    }
}

bool is_expected(const Result<std::size_t>& result) {
    return result || result.error() == std::errc::operation_canceled ||
           result.error() == ClientError::truncated;
}

TEST(HttpClientStorm, IsCancelledAtEachAwait) {
    const Watchdog watchdog(110);
    run(with_server(&serve, [](const ScriptedServer& server) -> Task<> {
        for (unsigned kind = 0; kind < 12; ++kind) {
            Client client(ClientOptions{.buffer = std::size_t{16} * 1024});
            bool complete = false;
            for (int count = 0; !complete && count < 400; count += 1 + count / 8) {
                const auto first = co_await race(ask(client, server.url, kind), turns(count));
                complete = first.index() == 0;
                if (complete) {
                    EXPECT_TRUE(is_expected(std::get<0>(first))) << std::get<0>(first).error();
                }
            }
            // The client is as good as new.
            const auto again = co_await ask(client, server.url, 0);
            EXPECT_EQ(expect(again), 2U);
        }
    }));
}

struct Storm {
    Storm(unsigned seed, std::string server) : random(seed), url(std::move(server)) {}

    unsigned draw(unsigned below) { return static_cast<unsigned>(random()) % below; }

    std::mt19937 random;
    std::string url;
    std::optional<Client> client{
        std::in_place, ClientOptions{.connections_per_host = 3, .buffer = std::size_t{8} * 1024}};
    std::size_t answered = 0;
};

Task<> ask_at_random(Storm& storm) {
    for (int i = 0; i < 6 && storm.client; ++i) {
        Client& client = *storm.client;
        // Some have time enough for an answer on a slow machine.
        const std::chrono::microseconds limit(storm.draw(8) == 0 ? 60'000'000U : storm.draw(6000));
        // A slow reader's connection is full while others use theirs.
        const std::chrono::microseconds pause(storm.draw(4) == 0 ? storm.draw(1000) : 0U);
        const auto result =
            co_await penstock::timeout(limit, ask(client, storm.url, storm.draw(12), pause));
        EXPECT_TRUE(is_expected(result) || result.error() == std::errc::timed_out)
            << result.error() << " " << result.error().message();
        storm.answered += result ? 1 : 0;
    }
}

TEST(HttpClientStorm, SurvivesRandomCancellation) {
    const Stress stress(20);
    const Watchdog watchdog(Stress::patience());
    const std::size_t before = open_descriptors();
    std::size_t answered = 0;
    for (unsigned seed = stress.first; seed < stress.end; ++seed) {
        run(with_server(&serve, [&](const ScriptedServer& server) -> Task<> {
            Storm storm(seed, server.url);
            expect(co_await penstock::with_scope([&](Scope& scope) -> Task<Result<>> {
                for (int i = 0; i < 6; ++i) {
                    scope.spawn(ask_at_random(storm));
                }
                if (seed % 2 == 1) { // the client ends among its requests, or all of them do
                    (void)co_await penstock::sleep_for(std::chrono::microseconds(storm.draw(5000)));
                    if (seed % 4 == 1) {
                        storm.client.reset();
                    }
                    scope.cancel();
                }
                co_return Result<>();
            }));
            answered += storm.answered;
        }));
        EXPECT_EQ(open_descriptors(), before) << "seed " << seed;
    }
    EXPECT_GT(answered, 0U);
}

} // namespace
