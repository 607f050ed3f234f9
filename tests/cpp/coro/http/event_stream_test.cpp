#include <penstock/http/event_stream.hpp>

#include <penstock/http/server.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/unwrap.hpp>

#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "coro/http/running_server.hpp"

namespace {

using namespace penstock;
using namespace std::chrono_literals;
using http::EventStream;
using http::ServerEvent;
using penstock::testing::exchange;
using penstock::testing::expect;
using penstock::testing::read_until;
using penstock::testing::with_server;

constexpr std::string_view ask = "GET /e HTTP/1.0\r\nLast-Event-ID: 41\r\n\r\n";

TEST(ServerEvents, FieldsAreLines) {
    EXPECT_EQ((ServerEvent{.data = "x"}).to_string(), "data: x\n\n");
    EXPECT_EQ((ServerEvent{.data = "x", .event = "t", .id = "7", .retry = 1500ms}).to_string(),
              "event: t\nid: 7\nretry: 1500\ndata: x\n\n");
    EXPECT_EQ((ServerEvent{.id = ""}).to_string(), "id: \n\n");
    EXPECT_EQ((ServerEvent{.data = ""}).to_string(), "data: \n\n");
}

TEST(ServerEvents, EachLineEndInDataBeginsAnotherLineOfData) {
    EXPECT_EQ((ServerEvent{.data = " a\nb\rc\r\nd\n"}).to_string(),
              "data:  a\ndata: b\ndata: c\ndata: d\ndata: \n\n");
    EXPECT_EQ((ServerEvent{.data = "x\r\revent: y"}).to_string(),
              "data: x\ndata: \ndata: event: y\n\n");
}

TEST(ServerEvents, ATypeOrIdThatWouldBeAnotherFieldIsRefused) {
    for (const std::string_view text :
         {std::string_view("a\nb"), std::string_view("a\rb"), std::string_view("a\0b", 3)}) {
        EXPECT_THROW((void)(ServerEvent{.data = "", .event = text}).to_string(),
                     std::invalid_argument);
        EXPECT_THROW((void)(ServerEvent{.data = "", .id = text}).to_string(),
                     std::invalid_argument);
    }
    EXPECT_THROW((void)(ServerEvent{.retry = -1ms}).to_string(), std::invalid_argument);
}

TEST(EventStreams, EventsAndCommentsReachTheClientAtOnce) {
    http::Server server;
    sync::Event seen;
    server.get("/e", http::event_stream([&](EventStream& events) -> Task<Result<>> {
                   co_await unwrap(events.send(events.last_event_id().value_or("none")));
                   co_await unwrap(seen.wait());
                   co_await unwrap(events.comment("a\nb"));
                   co_await unwrap(events.send({.data = "2", .id = "42"}));
                   co_return Result<>();
               }));
    std::string head;
    std::string rest;
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await stream.write_all(ask));
        head = co_await read_until(stream, "data: 41\n\n");
        seen.set();
        rest = expect(co_await read_all_text(stream));
    });
    EXPECT_NE(head.find("Content-Type: text/event-stream\r\n"), std::string::npos) << head;
    EXPECT_NE(head.find("Cache-Control: no-store\r\n"), std::string::npos) << head;
    EXPECT_EQ(rest, ": a\n: b\nid: 42\ndata: 2\n\n");
}

TEST(EventStreams, HeadIsAnsweredWithoutTheSource) {
    http::Server server;
    bool called = false;
    server.get("/e", http::event_stream([&](EventStream&) -> Task<Result<>> {
                   called = true;
                   co_return Result<>();
               }));
    std::string answer;
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        answer = co_await exchange(endpoint, "HEAD /e HTTP/1.1\r\nHost: a\r\n\r\n");
    });
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
    EXPECT_FALSE(called);
}

TEST(EventStreams, ASilentSourceKeepsTheConnectionAliveByComments) {
    http::Server server;
    server.get("/e", http::event_stream(
                         [](EventStream&) -> Task<Result<>> {
                             co_await unwrap(sleep_for(1h));
                             co_return Result<>();
                         },
                         {.keep_alive = 1ms}));
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await stream.write_all(ask));
        (void)co_await read_until(stream, "\r\n\r\n:\n:\n:\n");
    });
}

TEST(EventStreams, ASilentSourceEndsWhenTheClientHasGone) {
    std::vector<std::string> failures;
    http::ServerOptions options;
    options.on_failure = [&](const http::ServerFailure& failure) {
        failures.push_back(failure.to_string());
    };
    http::Server server(std::move(options));
    sync::Event ended;
    std::error_code error;
    server.get("/e", http::event_stream(
                         [&](EventStream&) -> Task<Result<>> {
                             const Result<> slept = co_await sleep_for(1h);
                             error = slept.error();
                             ended.set();
                             co_return slept;
                         },
                         {.keep_alive = 1ms}));
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        {
            net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
            expect(co_await stream.write_all(ask));
            (void)co_await read_until(stream, ":\n");
        }
        expect(co_await ended.wait());
    });
    EXPECT_EQ(error, std::errc::operation_canceled);
    EXPECT_TRUE(failures.empty()) << failures.front();
}

TEST(EventStreams, ASlowClientSlowsTheSourceDown) {
    http::Server server;
    const std::string large(1'000'000, 'x');
    std::size_t sent = 0;
    server.get("/e", http::event_stream([&](EventStream& events) -> Task<Result<>> {
                   for (;;) {
                       co_await unwrap(events.send(large));
                       ++sent;
                   }
               }));
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await stream.write_all(ask));
        std::string received(20 * large.size(), ' ');
        expect(co_await stream.read_exactly(received));
        EXPECT_LT(sent, 60U); // the kernel's buffers hold the difference
    });
}

} // namespace
