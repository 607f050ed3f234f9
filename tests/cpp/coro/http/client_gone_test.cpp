// A handler and the end of its client: who is cancelled, who is told, and what is left alone.

#include <penstock/http/errors.hpp>
#include <penstock/http/server.hpp>
#include <penstock/http/static_files.hpp>
#include <penstock/net/unix_stream.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/task/unwrap.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "coro/http/running_server.hpp"

namespace {

using namespace penstock;
using namespace std::chrono_literals;
using http::Request;
using http::Response;
using http::RouteOptions;
using http::WhenClientGoes;
using penstock::testing::exchange;
using penstock::testing::expect;
using penstock::testing::read_until;
using penstock::testing::status_line;
using penstock::testing::with_server;

constexpr RouteOptions finishing{.when_client_goes = WhenClientGoes::finish};
constexpr auto for_ever = std::chrono::hours(24);

std::string get(const std::string& path) {
    return "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n";
}

void reset(net::TcpStream& stream) {
    const struct linger now{.l_onoff = 1, .l_linger = 0};
    EXPECT_EQ(::setsockopt(stream.native_handle(), SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
    stream.close();
}

/// Runs `client(stream)` beside a server, on a connection that has sent `request`, once the handler
/// has set `begun`.
template <typename Client>
void with_request(http::Server& server, const std::string& request, sync::Event& begun,
                  Client client) {
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await stream.write_all(request));
        expect(co_await begun.wait());
        co_await client(stream);
    });
}

/// A handler's wait that only the end of its client ends.
struct Wait {
    Task<Result<>> operator()() {
        const Result<> slept = co_await sleep_for(for_ever);
        told = slept ? std::error_code() : slept.error();
        ended.set();
        co_return slept;
    }

    std::error_code told;
    sync::Event ended;
};

/// For which the end of the stream is the end of the client.
const http::ServerOptions hasty{.timeouts = {.half_closed = 1ms}};

/// A server that keeps its failures.
struct Watched {
    std::vector<std::string> failures;
    http::Server server{options()};

    http::ServerOptions options() {
        http::ServerOptions made = hasty;
        made.on_failure = [this](const http::ServerFailure& failure) {
            failures.push_back(failure.to_string());
        };
        return made;
    }
};

/// What a handler that waits for ever is told, when its client does this after the request.
std::error_code told_when(const std::function<void(net::TcpStream&)>& go) {
    Watched watched;
    sync::Event begun;
    Wait wait;
    watched.server.get("/", [&](Request& /*request*/, Response& /*response*/) -> Task<Result<>> {
        begun.set();
        co_return co_await wait();
    });
    with_request(watched.server, get("/"), begun, [&](net::TcpStream& stream) -> Task<void> {
        go(stream);
        expect(co_await wait.ended.wait());
    });
    EXPECT_TRUE(watched.failures.empty());
    return wait.told;
}

TEST(ClientGone, AHandlerThatWaitsIsCancelledWhenItsClientCloses) {
    EXPECT_EQ(told_when([](net::TcpStream& stream) { stream.close(); }),
              std::errc::operation_canceled);
}

TEST(ClientGone, AHandlerThatWaitsIsCancelledWhenItsClientResetsTheConnection) {
    EXPECT_EQ(told_when(&reset), std::errc::operation_canceled);
}

TEST(ClientGone, AnEndBehindPipelinedRequestsIsSeen) {
    EXPECT_EQ(told_when([](net::TcpStream& stream) {
                  const std::string more = get("/") + get("/");
                  EXPECT_EQ(expect(stream.try_write(Bytes(more))), more.size());
                  stream.close();
              }),
              std::errc::operation_canceled);
}

TEST(ClientGone, ARequestThatComesWhileAHandlerWaitsIsKeptForItsTurn) {
    http::Server server(hasty);
    sync::Event begun;
    sync::Event go_on;
    server.get("/slow", [&](Request& request, Response& response) -> Task<Result<>> {
        begun.set();
        co_await unwrap(go_on.wait());
        EXPECT_FALSE(request.client_gone());
        response.body("slow.");
        co_return Result<>();
    });
    server.get("/next", [](Request& /*request*/, Response& response) { response.body("next."); });
    with_request(server, get("/slow"), begun, [&](net::TcpStream& stream) -> Task<void> {
        expect(co_await stream.write_all(get("/next")));
        expect(co_await sleep_for(1ms)); // the loop sees what has arrived, and nobody reads it
        go_on.set();
        const std::string answers = co_await read_until(stream, "next.");
        EXPECT_TRUE(answers.contains("slow."));
    });
}

TEST(ClientGone, WhatNobodyReadsStaysInTheKernelAndSlowsTheClientDown) {
    http::Server server(hasty);
    sync::Event begun;
    server.get("/", [&](Request& /*request*/, Response& /*response*/) -> Task<Result<>> {
        begun.set();
        co_return co_await sleep_for(for_ever);
    });
    with_request(server, get("/"), begun, [&](net::TcpStream& stream) -> Task<void> {
        const std::string flood(std::size_t{64} << 20, 'x');
        const Result<> sent = co_await timeout(100ms, stream.write_all(flood));
        EXPECT_EQ(sent.error(), std::errc::timed_out);
        reset(stream);
    });
}

TEST(ClientGone, ARouteMayFinishWithoutItsClient) {
    Watched watched;
    sync::Event begun;
    sync::Event gone;
    bool finished = false;
    watched.server.get(
        "/",
        [&](Request& request, Response& response) -> Task<Result<>> {
            request.on_close([&] { gone.set(); });
            begun.set();
            co_await unwrap(gone.wait());
            EXPECT_TRUE(request.client_gone());
            co_await unwrap(sleep_for(1ms)); // would fail in a task that is cancelled
            finished = true;
            response.body("done");
            co_return Result<>();
        },
        finishing);
    with_request(watched.server, get("/"), begun, [&](net::TcpStream& stream) -> Task<void> {
        expect(stream.shutdown());
        // It has only ended its side, and so it gets the response.
        const std::string answer = expect(co_await read_all_text(stream));
        EXPECT_EQ(status_line(answer), "HTTP/1.1 200 OK");
        EXPECT_TRUE(answer.ends_with("done"));
    });
    EXPECT_TRUE(finished);
    EXPECT_TRUE(watched.failures.empty());
}

TEST(ClientGone, TheFailureOfARouteThatFinishesIsReportedAndAnswered) {
    Watched watched;
    sync::Event begun;
    sync::Event gone;
    watched.server.get(
        "/",
        [&](Request& request, Response& /*response*/) -> Task<Result<>> {
            request.on_close([&] { gone.set(); });
            begun.set();
            co_await unwrap(gone.wait());
            co_return failure(std::errc::io_error);
        },
        finishing);
    with_request(watched.server, get("/"), begun, [&](net::TcpStream& stream) -> Task<void> {
        expect(stream.shutdown()); // and still reads
        EXPECT_EQ(status_line(expect(co_await read_all_text(stream))),
                  "HTTP/1.1 500 Internal Server Error");
    });
    EXPECT_EQ(watched.failures, std::vector<std::string>{"GET /: Input/output error"});
}

TEST(ClientGone, WhoAsksIsToldOnceAndInOrderBeforeTheCancellation) {
    http::Server server(hasty);
    sync::Event begun;
    sync::Event ended;
    std::string log;
    server.get("/", [&](Request& request, Response& /*response*/) -> Task<Result<>> {
        request.on_close([&] { log += "a "; });
        request.on_close([&] { log += "b "; });
        begun.set();
        const Result<> slept = co_await sleep_for(for_ever);
        log += "cancelled ";
        request.on_close([&] { log += "late "; });
        ended.set();
        co_return slept;
    });
    with_request(server, get("/"), begun, [&](net::TcpStream& stream) -> Task<void> {
        stream.close();
        expect(co_await ended.wait());
    });
    EXPECT_EQ(log, "a b cancelled late ");
}

TEST(ClientGone, AClientThatOnlyEndsItsSideGetsWhatComesInTime) {
    http::Server server;
    server.get("/", [&](Request& request, Response& response) -> Task<Result<>> {
        co_await unwrap(sleep_for(1ms));
        EXPECT_FALSE(request.client_gone());
        response.body("hello");
        co_return Result<>();
    });
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        const std::string answers = co_await exchange(endpoint, get("/") + get("/"));
        EXPECT_TRUE(answers.ends_with("hello"));
        EXPECT_NE(answers.find("hello"), answers.rfind("hello"));
    });
}

TEST(ClientGone, AfterTheHandlerNobodyIsTold) {
    http::Server server(hasty);
    int told = 0;
    server.get("/", [&](Request& request, Response& response) -> Task<Result<>> {
        request.on_close([&] { ++told; });
        co_await unwrap(sleep_for(1ms));
        response.body("hello");
        co_return Result<>();
    });
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        for (int i = 0; i < 2; ++i) {
            expect(co_await stream.write_all(get("/")));
            (void)co_await read_until(stream, "hello");
        }
        stream.close();
    });
    EXPECT_EQ(told, 0);
}

TEST(ClientGone, AHandlerThatReadsTheBodyReadsItsEndInstead) {
    http::Server server(hasty);
    sync::Event begun;
    sync::Event ended;
    std::error_code read;
    std::error_code after;
    server.post("/", [&](Request& request, Response& /*response*/) -> Task<Result<>> {
        begun.set();
        const Result<std::string> text = co_await request.text();
        read = text ? std::error_code() : text.error();
        const Result<> slept = co_await sleep_for(1ms);
        after = slept ? std::error_code() : slept.error();
        ended.set();
        co_return failure(read);
    });
    with_request(server, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf", begun,
                 [&](net::TcpStream& stream) -> Task<void> {
                     stream.close();
                     expect(co_await ended.wait());
                 });
    EXPECT_EQ(read, http::Error::truncated);
    EXPECT_EQ(after, std::error_code());
}

TEST(ClientGone, AfterTheBodyTheHandlerIsCancelledAgain) {
    http::Server server(hasty);
    sync::Event read;
    Wait wait;
    std::string text;
    server.post("/", [&](Request& request, Response& /*response*/) -> Task<Result<>> {
        text = co_await unwrap(request.text());
        read.set();
        co_return co_await wait();
    });
    with_request(server, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nwhole", read,
                 [&](net::TcpStream& stream) -> Task<void> {
                     stream.close();
                     expect(co_await wait.ended.wait());
                 });
    EXPECT_EQ(text, "whol");
    EXPECT_EQ(wait.told, std::errc::operation_canceled);
}

/// The handler waits for the body when a part of it and the end of the client arrive together.
TEST(ClientGone, AHandlerThatStopsReadingMidwayIsCancelled) {
    http::Server server(hasty);
    sync::Event begun;
    Wait wait;
    std::string part;
    server.post("/", [&](Request& request, Response& /*response*/) -> Task<Result<>> {
        begun.set();
        const Bytes received = co_await unwrap(request.receive());
        part.assign(reinterpret_cast<const char*>(received.data()), received.size());
        co_return co_await wait();
    });
    with_request(server, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n", begun,
                 [&](net::TcpStream& stream) -> Task<void> {
                     expect(co_await sleep_for(1ms)); // it waits in the kernel's queue
                     const std::string half = "half";
                     EXPECT_EQ(expect(stream.try_write(Bytes(half))), half.size());
                     stream.close();
                     expect(co_await wait.ended.wait());
                 });
    EXPECT_EQ(part, "half");
    EXPECT_EQ(wait.told, std::errc::operation_canceled);
}

TEST(ClientGone, AResponseThatHasBegunIsCutSoThatNobodyTakesItForWhole) {
    http::Server server(hasty);
    Wait wait;
    server.get("/", [&](Request& /*request*/, Response& response) -> Task<Result<>> {
        co_await unwrap(response.write_all(std::string("half")));
        co_return co_await wait();
    });
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await stream.write_all(get("/")));
        (void)co_await read_until(stream, "half\r\n");
        expect(stream.shutdown());
        const Result<std::string> rest = co_await read_all_text(stream);
        EXPECT_TRUE(!rest || !rest->contains("0\r\n\r\n"));
        expect(co_await wait.ended.wait());
    });
}

TEST(ClientGone, AClientOfAUnixSocketIsSeenToo) {
    http::Server server(hasty);
    sync::Event begun;
    Wait wait;
    server.get("/", [&](Request& /*request*/, Response& /*response*/) -> Task<Result<>> {
        begun.set();
        co_return co_await wait();
    });
    run([&]() -> Task<void> {
        auto [one, other] = expect(net::UnixStream::pair());
        const auto client = [&]() -> Task<Result<>> {
            expect(co_await other.write_all(get("/")));
            expect(co_await begun.wait());
            other.close();
            co_return co_await wait.ended.wait();
        };
        (void)co_await all(server.serve_connection(std::move(one)), client());
    }());
}

} // namespace
