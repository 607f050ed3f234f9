// How requests of http::Client end early: by a time limit, a cancellation, or with their client.

#include <penstock/http/client.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "coro/http_client/scripted_server.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::http::Client;
using penstock::http::ClientError;
using penstock::http::ClientOptions;
using penstock::http::ClientResponse;
using penstock::http::FetchedResponse;
using penstock::testing::answering;
using penstock::testing::expect;
using penstock::testing::ReceivedRequest;
using penstock::testing::ScriptedServer;
using penstock::testing::ServedConnection;
using penstock::testing::Watchdog;
using penstock::testing::with;

TEST(HttpClient, EndsARequestThatTakesTooLong) {
    with(
        [](ServedConnection& connection) -> Task<> {
            (void)co_await connection.request();
            (void)co_await connection.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
            (void)co_await connection.reader().line(); // until the client closes
        },
        [](const ScriptedServer& server) -> Task<> {
            Client client;
            for (const auto timeouts : {penstock::http::ClientTimeouts{.whole = 50ms},
                                        penstock::http::ClientTimeouts{.idle = 1s}}) {
                const auto late = co_await client.fetch({.url = server.url, .timeouts = timeouts});
                EXPECT_EQ(late.error(), ClientError::timed_out);
                EXPECT_EQ(late.error(), std::errc::timed_out);
            }
        });
}

/// Sends a byte and waits for `pause`, `count` times.
Task<> drip(ServedConnection& connection, int count, std::chrono::milliseconds pause) {
    for (int i = 0; i < count; ++i) {
        (void)co_await connection.send("x");
        (void)co_await penstock::sleep_for(pause);
    }
}

TEST(HttpClient, LimitsTheTimeWithoutAByte) {
    const auto serve = [](ServedConnection& connection) -> Task<> {
        const auto request = co_await connection.request();
        if (request && request->target != "/nothing") {
            (void)co_await connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
        }
        if (request && request->target == "/much") {
            (void)co_await connection.send(std::string(500'000, 'x'));
        }
        (void)co_await connection.reader().line(); // until the client closes
    };
    with(serve, [](const ScriptedServer& server) -> Task<> {
        Client client;
        std::vector<std::string> ended;
        const auto ask = [&](std::string target, std::chrono::seconds idle) -> Task<Result<>> {
            const auto late =
                co_await client.fetch({.url = server.url + target,
                                       .timeouts = penstock::http::ClientTimeouts{.idle = idle}});
            EXPECT_EQ(late.error(), ClientError::timed_out);
            ended.push_back(target);
            co_return Result<>();
        };
        const auto wait = [&](std::string name, std::chrono::milliseconds time) -> Task<Result<>> {
            expect(co_await penstock::sleep_for(time));
            ended.push_back(std::move(name));
            co_return Result<>();
        };
        expect(co_await penstock::all(ask("/nothing", 1s), ask("/head", 1s), ask("/much", 1s),
                                      ask("/late", 4s), wait("0.5 s", 500ms), wait("3 s", 3s)));
        std::ranges::sort(ended.begin() + 1, ended.begin() + 4);
        EXPECT_EQ(ended, (std::vector<std::string>{"0.5 s", "/head", "/much", "/nothing", "3 s",
                                                   "/late"}));
    });
}

TEST(HttpClient, LimitsTheTimeBetweenBytesAndNotTheirSum) {
    const auto serve = [](ServedConnection& connection) -> Task<> {
        (void)co_await connection.request();
        (void)co_await connection.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n");
        co_await drip(connection, 8, 300ms);
    };
    with(serve, [](const ScriptedServer& server) -> Task<> {
        Client client(ClientOptions{.timeouts = {.idle = 2s}});
        EXPECT_EQ(expect(co_await client.get(server.url)).body, "xxxxxxxx");
    });
}

TEST(HttpClient, DoesNotCountTheTimeInWhichTheProgramIsAwaited) {
    const std::string body(1'000'000, 'x');
    const auto serve =
        answering([&](ServedConnection& connection, ReceivedRequest request) -> Task<> {
            (void)co_await connection.respond(200, request.method == "POST" ? request.body : body);
        });
    with(serve, [&](const ScriptedServer& server) -> Task<> {
        Client client(ClientOptions{.timeouts = {.idle = 1s}, .buffer = 1'000});
        ClientResponse response = expect(co_await client.send({.url = server.url}));
        expect(co_await penstock::sleep_for(2500ms));
        EXPECT_EQ(expect(co_await response.text()), body);
        auto [source, sink] = penstock::MemoryStream::pair();
        const auto write = [&sink]() -> Task<Result<>> {
            expect(co_await sink.write_all("late"));
            expect(co_await penstock::sleep_for(2500ms));
            expect(co_await sink.write_all("r"));
            co_return sink.shutdown();
        };
        const auto [sent, answer] = expect(co_await penstock::all(
            write(), client.fetch({.url = server.url,
                                   .method = penstock::http::Method::post,
                                   .body = penstock::http::RequestBody::stream_of(source)})));
        EXPECT_EQ(answer.body, "later");
    });
}

TEST(HttpClient, LimitsTheTimeToConnect) {
    // The queue of a listener that accepts nothing is full after two connections.
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        auto listener = expect(
            penstock::net::TcpListener::listen(penstock::net::Endpoint::loopback(0),
                                               penstock::net::TcpListener::Options{.backlog = 1}));
        const auto endpoint = expect(listener.local_endpoint());
        std::vector<penstock::net::TcpStream> held;
        for (int i = 0; i < 8; ++i) {
            auto stream =
                co_await penstock::timeout(20ms, penstock::net::TcpStream::connect(endpoint));
            if (!stream) {
                break;
            }
            held.push_back(std::move(*stream));
        }
        Client client(ClientOptions{.timeouts = {.connect = 50ms}});
        const auto late =
            co_await client.get("http://127.0.0.1:" + std::to_string(endpoint.port()));
        EXPECT_EQ(late.error(), ClientError::timed_out);
    };
    run(program());
}

TEST(HttpClient, ReadsOnAfterACancelledRead) {
    penstock::sync::Event cancelled;
    with(
        [&cancelled](ServedConnection& connection) -> Task<> {
            (void)co_await connection.request();
            (void)co_await connection.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
            expect(co_await cancelled.wait());
            (void)co_await connection.send("abcde");
            EXPECT_TRUE(co_await connection.request());
            (void)co_await connection.respond(200, "again");
        },
        [&cancelled](const ScriptedServer& server) -> Task<> {
            Client client;
            ClientResponse response = expect(co_await client.send({.url = server.url}));
            std::string text(5, ' ');
            EXPECT_EQ((co_await penstock::timeout(10ms, response.read(text))).error(),
                      std::errc::timed_out);
            cancelled.set();
            EXPECT_EQ(expect(co_await response.text()), "abcde");
            EXPECT_EQ(expect(co_await client.get(server.url)).body, "again");
            EXPECT_EQ(server.connections, 1U);
        });
}

TEST(HttpClient, ClosesTheConnectionOfACancelledRequest) {
    penstock::sync::Event asked;
    penstock::sync::Latch closed(2);
    with(
        [&asked, &closed](ServedConnection& connection) -> Task<> {
            const auto request = co_await connection.request();
            asked.set();
            if (request->target == "/body") {
                (void)co_await connection.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\na");
            }
            EXPECT_FALSE(co_await connection.request());
            closed.count_down();
        },
        [&asked, &closed](const ScriptedServer& server) -> Task<> {
            Client client;
            EXPECT_EQ((co_await penstock::race(client.get(server.url), asked.wait())).index(), 1U);
            {
                ClientResponse response =
                    expect(co_await client.send({.url = server.url + "/body"}));
                std::string text(5, ' ');
                EXPECT_EQ(expect(co_await response.read(text)), 1U);
            }
            expect(co_await closed.wait());
        });
}

TEST(HttpClient, EndsItsRequestsWhenItIsDestroyed) {
    with(
        [](ServedConnection& connection) -> Task<> {
            while (const auto request = co_await connection.request()) {
                (void)co_await connection.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\na");
            }
        },
        [](const ScriptedServer& server) -> Task<> {
            std::optional<Client> client(std::in_place);
            ClientResponse response = expect(co_await client->send({.url = server.url}));
            Task<Result<FetchedResponse>> later = client->get(server.url);
            const auto destroy = [&]() -> Task<Result<>> {
                (void)co_await penstock::yield();
                client.reset();
                co_return Result<>();
            };
            const auto ended = co_await penstock::all_settled(client->get(server.url), destroy());
            EXPECT_EQ(std::get<0>(ended).error(), std::errc::operation_canceled);
            EXPECT_EQ((co_await std::move(later)).error(), std::errc::operation_canceled);
            std::string text(5, ' ');
            EXPECT_EQ(expect(co_await response.read(text)), 1U);
            EXPECT_EQ((co_await response.read(text)).error(), std::errc::operation_canceled);
        });
}

/// A response whose body is not complete, with its server's end of the connection.
struct Unfinished {
    penstock::net::TcpStream server;
    ClientResponse response;
};

/// Begins a response on a loop of its own, which has ended when this returns.
Unfinished begin_on_a_loop(penstock::net::TcpListener& listener, Client& client) {
    const std::string url =
        "http://127.0.0.1:" + std::to_string(expect(listener.local_endpoint()).port());
    const auto answer = [&]() -> Task<Result<penstock::net::TcpStream>> {
        auto stream = co_await penstock::unwrap(listener.accept());
        co_await penstock::unwrap(
            stream.write_all("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"));
        co_return stream;
    };
    const auto program = [&]() -> Task<Unfinished> {
        auto [server, response] = expect(co_await penstock::all(
            answer(),
            client.send({.url = url, .timeouts = penstock::http::ClientTimeouts{.whole = 1h}})));
        co_return Unfinished{.server = std::move(server), .response = std::move(response)};
    };
    return run(program());
}

TEST(HttpClient, AResponseMayOutliveItsLoop) {
    const Watchdog watchdog;
    auto listener = penstock::testing::listen_on_loopback();
    Client client;
    { // destroyed unread
        const Unfinished unfinished = begin_on_a_loop(listener, client);
        EXPECT_EQ(unfinished.response.status(), penstock::http::Status::ok);
    }
    { // read on another loop
        Unfinished unfinished = begin_on_a_loop(listener, client);
        const auto read = [&]() -> Task<> {
            std::string text(5, ' ');
            EXPECT_LE(expect(co_await unfinished.response.read(text)), 2U);
            EXPECT_EQ((co_await unfinished.response.text()).error(), std::errc::operation_canceled);
        };
        run(read());
    }
    { // after its client
        std::optional<Client> other(std::in_place);
        const Unfinished unfinished = begin_on_a_loop(listener, *other);
        other.reset();
    }
}

TEST(HttpClient, RequestsOnAnotherLoopAfterOneHasEndedWithATransfer) {
    const Watchdog watchdog;
    auto listener = penstock::testing::listen_on_loopback();
    Client client;
    const Unfinished first = begin_on_a_loop(listener, client);
    const Unfinished second = begin_on_a_loop(listener, client);
    EXPECT_EQ(second.response.status(), penstock::http::Status::ok);
}

} // namespace
