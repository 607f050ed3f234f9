// HTTP/2 of http::Server: what a client of libcurl sees, over TLS with ALPN and without.

#include <penstock/codec/http2/server_session.hpp>
#include <penstock/http.hpp>
#include <penstock/http/client.hpp>
#include <penstock/task/race.hpp>
#include <penstock/task/shield.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/task/yield.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "coro/http/running_server.hpp"
#include "coro/http_client/http2_frames.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace penstock;
using namespace std::chrono_literals;
using namespace penstock::testing::http2;
using http::Client;
using http::ClientOptions;
using http::ClientProtocol;
using http::ClientRequest;
using http::ClientResponse;
using http::Method;
using http::Request;
using http::Response;
using http::ServerOptions;
using http::Status;
using http::Version;
using penstock::testing::expect;
using penstock::testing::Watchdog;
using penstock::testing::with_server;

std::string base_of(const net::Endpoint& endpoint) {
    return "http://127.0.0.1:" + std::to_string(endpoint.port());
}

class Http2Server : public ::testing::Test {
protected:
    static ServerOptions options() {
        ServerOptions options;
        options.http2 = true;
        return options;
    }

    /// Runs a program of requests against the server.
    template <typename Program> static void ask(http::Server& server, Program program) {
        const Watchdog watchdog(60);
        with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
            Client client({.protocol = ClientProtocol::http_2_unasked});
            co_await program(client, base_of(endpoint));
        });
    }
};

Task<std::string> answer(Client& client, ClientRequest request, Status expected) {
    ClientResponse response = expect(co_await client.send(std::move(request)));
    EXPECT_EQ(response.version(), Version::http_2);
    EXPECT_EQ(response.status(), expected);
    co_return expect(co_await response.text());
}

TEST_F(Http2Server, AFunctionAndATaskAnswerAsInHttp1) {
    http::Server server(options());
    server.get("/hello/{name}", [](Request& request, Response& response) {
        EXPECT_EQ(request.head().major_version, 2);
        EXPECT_TRUE(request.host().starts_with("127.0.0.1:")) << request.host();
        EXPECT_EQ(request.header("Host"), request.host());
        EXPECT_EQ(request.query_parameter("a"), "1");
        response.header("X-Answer", "42");
        response.body("Hello, " + request.parameter("name"));
    });
    server.post("/length", [](Request& request, Response& response) -> Task<Result<>> {
        response.body(std::to_string((co_await unwrap(request.text())).size()));
        co_return Result<>();
    });
    server.upgrade("/socket", "other",
                   [](http::Upgrade&) -> Task<Result<>> { co_return Result<>(); });
    server.post("/short", [](Request&, Response&) {}, {.body_limit = 1'000});
    ask(server, [](Client& client, std::string base) -> Task<void> {
        ClientResponse response = expect(co_await client.send({.url = base + "/hello/you?a=1"}));
        EXPECT_EQ(response.version(), Version::http_2);
        EXPECT_EQ(response.headers().find("x-answer"), "42");
        EXPECT_TRUE(response.headers().contains("date"));
        EXPECT_EQ(expect(co_await response.text()), "Hello, you");
        ClientRequest upload{.url = base + "/short", .method = Method::post};
        upload.body = std::string(2'000, 'x');
        EXPECT_EQ(co_await answer(client, std::move(upload), Status::content_too_large),
                  "413 Content Too Large\n");
        upload = {.url = base + "/length", .method = Method::post};
        upload.body = std::string(900'000, 'x');
        EXPECT_EQ(co_await answer(client, std::move(upload), Status::ok), "900000");
        for (const std::string path : {"/none", "/socket"}) {
            EXPECT_EQ(co_await answer(client, {.url = base + path}, Status::not_found),
                      "404 Not Found\n");
        }
        EXPECT_EQ(co_await answer(client, {.url = base + "/length", .method = Method::put},
                                  Status::method_not_allowed),
                  "405 Method Not Allowed\n");
        EXPECT_EQ(co_await answer(client, {.url = base + "/hello/x?a=1", .method = Method::head},
                                  Status::ok),
                  "");
    });
}

TEST_F(Http2Server, ABodyIsSentAsTheClientTakesIt) {
    http::Server server(options());
    server.get("/parts", [](Request&, Response& response) -> Task<Result<>> {
        for (int i = 0; i < 200; ++i) {
            co_await unwrap(
                response.write_all(std::string(20'000, static_cast<char>('a' + i % 26))));
        }
        co_return Result<>();
    });
    server.get("/whole",
               [](Request&, Response& response) { response.body(std::string(4'000'000, 'w')); });
    ask(server, [](Client& client, std::string base) -> Task<void> {
        std::string expected;
        for (int i = 0; i < 200; ++i) {
            expected.append(20'000, static_cast<char>('a' + i % 26));
        }
        EXPECT_TRUE(co_await answer(client, {.url = base + "/parts"}, Status::ok) == expected);
        EXPECT_TRUE(co_await answer(client, {.url = base + "/whole"}, Status::ok) ==
                    std::string(4'000'000, 'w'));
    });
}

TEST_F(Http2Server, AFailureIs500) {
    std::vector<std::string> failures;
    ServerOptions wanted = options();
    wanted.on_failure = [&](const http::ServerFailure& failure) {
        failures.push_back(failure.to_string());
    };
    http::Server server(wanted);
    server.get("/error",
               [](Request&, Response&) -> Result<> { return failure(std::errc::io_error); });
    server.get("/throws", [](Request&, Response&) -> Task<Result<>> {
        (void)co_await yield();
        throw std::runtime_error("no");
    });
    ask(server, [](Client& client, std::string base) -> Task<void> {
        for (const std::string path : {"/error", "/throws"}) {
            EXPECT_EQ(co_await answer(client, {.url = base + path}, Status::internal_server_error),
                      "500 Internal Server Error\n");
        }
    });
    EXPECT_EQ(failures,
              (std::vector<std::string>{"GET /error: Input/output error", "GET /throws: no"}));
}

TEST_F(Http2Server, APartialResponseArrivesAndIsReset) {
    ServerOptions wanted = options();
    wanted.on_failure = [](const http::ServerFailure&) {};
    http::Server server(wanted);
    server.get("/", [](Request&, Response& response) -> Task<Result<>> {
        co_await unwrap(response.write_all("a part"));
        co_return failure(std::errc::io_error);
    });
    talk(server, frame(headers_frame, whole_head, 1, head("/")),
         [](net::TcpStream& stream) -> Task<void> {
             EXPECT_EQ(expect_frame(co_await next_frame(stream)).type, headers_frame);
             EXPECT_EQ(expect_frame(co_await next_frame(stream)).payload, "a part");
             const Frame last = expect_frame(co_await next_frame(stream));
             EXPECT_EQ(last.type, reset_frame);
             EXPECT_EQ(last.payload.back(), 2); // INTERNAL_ERROR
         });
}

TEST_F(Http2Server, AHandlerIsCancelledWhenItsClientGoes) {
    sync::Event waits;
    bool cancelled = false;
    bool told = false;
    http::Server server(options());
    server.get("/slow", [&](Request& request, Response&) -> Task<Result<>> {
        request.on_close([&] { told = true; });
        waits.set();
        const Result<> slept = co_await sleep_for(1h);
        cancelled = !slept && slept.error() == std::errc::operation_canceled;
        co_return slept;
    });
    ask(server, [&](Client& client, std::string base) -> Task<void> {
        const auto ended = co_await race(client.send({.url = base + "/slow"}), waits.wait());
        (void)ended;
    });
    EXPECT_TRUE(cancelled);
    EXPECT_TRUE(told);
}

Task<void> expect_away(net::TcpStream& stream) {
    const std::optional<Frame> last = co_await next_frame(stream);
    EXPECT_TRUE(last && last->type == away_frame);
    EXPECT_FALSE(co_await next_frame(stream));
}

TEST_F(Http2Server, AnIdleConnectionEndsWithGoaway) {
    ServerOptions wanted = options();
    wanted.timeouts.idle = 50ms;
    http::Server server(wanted);
    talk(server, "", expect_away);
}

TEST_F(Http2Server, AHeadThatIsNotCompletedEndsTheConnection) {
    ServerOptions wanted = options();
    wanted.timeouts.head = 50ms;
    http::Server server(wanted);
    talk(server, frame(headers_frame, ends_stream, 1, head("/")), expect_away);
}

TEST_F(Http2Server, ABodyThatDoesNotComeIs408) {
    ServerOptions wanted = options();
    wanted.timeouts.body = 50ms;
    std::string seen;
    http::Server server(wanted);
    server.get("/", [&](Request& request, Response&) -> Task<Result<>> {
        const Result<std::string> text = co_await request.text();
        seen = text ? "text" : text.error().message();
        co_return text ? Result<>() : failure(text.error());
    });
    talk(server, frame(headers_frame, ends_head, 1, head("/")),
         [](net::TcpStream& stream) -> Task<void> {
             EXPECT_EQ(expect_frame(co_await next_frame(stream)).type, headers_frame);
             EXPECT_EQ(expect_frame(co_await next_frame(stream)).payload, "408 Request Timeout\n");
         });
    EXPECT_EQ(seen, std::make_error_code(std::errc::operation_canceled).message());
}

TEST_F(Http2Server, TrailersFollowTheBody) {
    std::string seen;
    http::Server server(options());
    server.get("/", [&](Request& request, Response&) -> Task<Result<>> {
        seen = co_await unwrap(request.text());
        seen.append(" ").append(request.trailers().find("x-sum").value_or("none"));
        seen.append(" ").append(request.header("cookie").value_or("none"));
        co_return Result<>();
    });
    std::string trailers("\0\5x-sum\1"
                         "7",
                         9);
    talk(server,
         frame(headers_frame, ends_head, 1, head("/", {{"cookie", "a=1"}, {"cookie", "b=2"}})) +
             frame(data_frame, 0, 1, "body") + frame(headers_frame, whole_head, 1, trailers),
         [](net::TcpStream& stream) -> Task<void> {
             const std::optional<Frame> answer = co_await next_frame(stream);
             EXPECT_TRUE(answer && answer->type == headers_frame);
         });
    EXPECT_EQ(seen, "body 7 a=1; b=2");
}

TEST_F(Http2Server, HandlersOfAConnectionRunBesideEachOther) {
    sync::Event both;
    int waiting = 0;
    http::Server server(options());
    server.get("/", [&](Request&, Response& response) -> Task<Result<>> {
        if (++waiting == 3) {
            both.set();
        }
        co_await unwrap(both.wait());
        response.body("x");
        co_return Result<>();
    });
    std::string sent;
    for (const char stream : {'\1', '\3', '\5'}) {
        sent += frame(headers_frame, whole_head, stream, head("/"));
    }
    talk(server, sent, [](net::TcpStream& stream) -> Task<void> {
        for (int i = 0; i < 6; ++i) { // a head and a body of each
            const std::optional<Frame> part = co_await next_frame(stream);
            EXPECT_TRUE(part && (part->type == headers_frame || part->type == data_frame));
        }
    });
}

TEST_F(Http2Server, AStreamThatIsResetCancelsItsHandlerAndNoOther) {
    sync::Event begun;
    sync::Event cancelled;
    http::Server server(options());
    server.get("/first", [&](Request&, Response&) -> Task<Result<>> {
        begun.set();
        const Result<> slept = co_await sleep_for(1h);
        cancelled.set();
        co_return slept;
    });
    server.get("/second", [&](Request&, Response&) -> Task<Result<>> {
        co_await unwrap(cancelled.wait());
        co_return Result<>();
    });
    talk(server,
         frame(headers_frame, whole_head, 1, head("/first")) +
             frame(headers_frame, whole_head, 3, head("/second")),
         [&](net::TcpStream& stream) -> Task<void> {
             expect(co_await begun.wait());
             expect(co_await stream.write_all(frame(reset_frame, 0, 1, cancel)));
             EXPECT_EQ(expect_frame(co_await next_frame(stream)).stream, 3);
         });
}

TEST_F(Http2Server, HandlersThatOutliveTheirStreamsCountAsStreams) {
    ServerOptions wanted = options();
    wanted.limits.streams = 2;
    sync::Event both;
    sync::Event go;
    int begun = 0;
    http::Server server(wanted);
    server.get("/", [&](Request&, Response&) -> Task<Result<>> {
        if (++begun == 2) {
            both.set();
        }
        (void)co_await shield(go.wait()); // work that cannot be cancelled
        co_return Result<>();
    });
    const auto ask_on = [](char stream) {
        return frame(headers_frame, whole_head, stream, head("/"));
    };
    talk(server, ask_on(1) + ask_on(3), [&](net::TcpStream& stream) -> Task<void> {
        expect(co_await both.wait());
        expect(co_await stream.write_all(frame(reset_frame, 0, 1, cancel) +
                                         frame(reset_frame, 0, 3, cancel) + ask_on(5)));
        const Frame refused = expect_frame(co_await next_frame(stream));
        EXPECT_EQ(refused.type, reset_frame);
        EXPECT_EQ(refused.stream, 5);
        go.set();
    });
    EXPECT_EQ(begun, 2);
}

TEST_F(Http2Server, AfterItsHandlerARequestTellsNobodyThatTheClientHasGone) {
    int told = 0;
    http::Server server(options());
    server.get("/", [&](Request& request, Response& response) -> Task<Result<>> {
        request.on_close([&] { ++told; }); // what it uses may end with the handler
        response.body(std::string(1'000'000, 'x'));
        co_return Result<>();
    });
    talk(server, frame(headers_frame, whole_head, 1, head("/")),
         [](net::TcpStream& stream) -> Task<void> {
             EXPECT_EQ(expect_frame(co_await next_frame(stream)).type, headers_frame);
             EXPECT_EQ(expect_frame(co_await next_frame(stream)).type, data_frame);
         }); // and leaves
    EXPECT_EQ(told, 0);
}

TEST_F(Http2Server, HeadOfALargeBodyIsAnswered) {
    ServerOptions wanted = options();
    wanted.metrics = std::make_shared<http::Metrics>();
    http::Server server(wanted);
    server.get("/large",
               [](Request&, Response& response) { response.body(std::string(200'000, 'x')); });
    ask(server, [](Client& client, std::string base) -> Task<void> {
        ClientResponse response =
            expect(co_await client.send({.url = base + "/large", .method = Method::head}));
        EXPECT_EQ(response.headers().find("content-length"), "200000");
        EXPECT_EQ(expect(co_await response.text()), "");
    });
    EXPECT_NE(wanted.metrics->text().find("status=\"200\"} 1"), std::string::npos)
        << wanted.metrics->text();
}

TEST_F(Http2Server, AHandlerGoesOnAfterAResponseWithoutABody) {
    sync::Event received;
    bool gone = false;
    Result<> waited = failure(std::errc::not_connected);
    http::Server server(options());
    server.get("/", [&](Request& request, Response& response) -> Task<Result<>> {
        response.status(Status::no_content);
        co_await unwrap(response.write_all(""));
        waited = co_await received.wait();
        (void)co_await yield();
        gone = request.client_gone();
        co_return waited;
    });
    talk(server, frame(headers_frame, whole_head, 1, head("/")),
         [&](net::TcpStream& stream) -> Task<void> {
             EXPECT_EQ(expect_frame(co_await next_frame(stream)).type, headers_frame);
             (void)co_await yield();
             received.set();
             const Frame last = expect_frame(co_await next_frame(stream));
             EXPECT_EQ(last.type, data_frame);
             EXPECT_EQ(last.flags, ends_stream);
             EXPECT_EQ(last.payload, "");
         });
    EXPECT_TRUE(waited);
    EXPECT_FALSE(gone);
}

TEST_F(Http2Server, AfterAWriteThatWasCutShortNothingIsWritten) {
    std::optional<std::error_code> second;
    http::Server server(options());
    server.get("/", [&](Request&, Response& response) -> Task<Result<>> {
        const std::string part(300'000, 'x'); // more than the window of a client that reads nothing
        (void)co_await timeout(10ms, response.write_all(part));
        const Result<> written = co_await response.write_all(part);
        second = written ? std::error_code() : written.error();
        co_return Result<>();
    });
    talk(server, frame(headers_frame, whole_head, 1, head("/")),
         [](net::TcpStream& stream) -> Task<void> {
             for (;;) {
                 const Frame next = expect_frame(co_await next_frame(stream));
                 if (next.type == reset_frame) {
                     co_return;
                 }
             }
         });
    EXPECT_TRUE(second && *second);
}

/// How many responses with this status are counted.
std::string counted(const http::Metrics& metrics) {
    const std::string text = metrics.text();
    const std::string_view name = "status=\"200\"} ";
    const std::size_t at = text.find(name);
    return at == std::string::npos
               ? "0"
               : text.substr(at + name.size(), text.find('\n', at) - at - name.size());
}

TEST_F(Http2Server, AResponseCountsWhenItIsSent) {
    const auto sized = [](const Request& request) {
        return std::string(std::stoul(request.parameter("size")), 'x');
    };
    for (const std::string path : {"/function/", "/task/"}) {
        ServerOptions wanted = options();
        wanted.metrics = std::make_shared<http::Metrics>();
        http::Server server(wanted);
        server.get("/function/{size}",
                   [&](Request& request, Response& response) { response.body(sized(request)); });
        server.get("/task/{size}", [&](Request& request, Response& response) -> Task<Result<>> {
            co_return co_await response.write_all(sized(request));
        });
        talk(server,
             frame(window_frame, 0, 0, std::string("\0\xF\x42\x40", 4)) +
                 frame(headers_frame, whole_head, 1, head(path + "20000")) +
                 frame(headers_frame, whole_head, 3, head(path + "70000")),
             [&](net::TcpStream& stream) -> Task<void> {
                 const std::string ping = frame(ping_frame, 0, 0, "12345678");
                 std::size_t received = 0;
                 while (received < 20'000 + 65'535) { // the second waits for its window
                     const Frame next = expect_frame(co_await next_frame(stream));
                     received += next.type == data_frame ? next.payload.size() : 0;
                 }
                 expect(co_await stream.write_all(ping));
                 while (expect_frame(co_await next_frame(stream)).type != ping_frame) {
                 }
                 EXPECT_EQ(counted(*wanted.metrics), "1") << path;
                 expect(co_await stream.write_all(frame(reset_frame, 0, 3, cancel) + ping));
                 EXPECT_EQ(expect_frame(co_await next_frame(stream)).type, ping_frame);
             });
        EXPECT_EQ(counted(*wanted.metrics), "1") << path;
        EXPECT_NE(wanted.metrics->text().find("requests_in_progress 0\n"), std::string::npos);
    }
}

TEST_F(Http2Server, AClientThatEndsWhileNothingCanBeWrittenIsNoticed) {
    sync::Event stuck;
    sync::Event told;
    http::Server server(options());
    server.get("/", [&](Request& request, Response& response) -> Task<Result<>> {
        request.on_close([&] { told.set(); });
        const std::string part(1'000'000, 'x');
        while (co_await timeout(200ms, response.write_all(part))) {
        }
        stuck.set();
        co_return co_await sleep_for(1h);
    });
    const std::string window("\0\4\x7F\xFF\xFF\xFF", 6);
    const std::string more("\x7F\xFF\0\0", 4);
    talk(server,
         frame(settings_frame, 0, 0, window) + frame(window_frame, 0, 0, more) +
             frame(headers_frame, whole_head, 1, head("/")),
         [&](net::TcpStream& stream) -> Task<void> {
             expect(co_await stuck.wait());
             expect(stream.shutdown()); // it has unread data, and reads no more
             expect(co_await told.wait());
             while (server.connections() > 0) { // without the time-outs of the server
                 (void)co_await yield();
             }
         });
}

TEST_F(Http2Server, AFileIsReadAsTheClientTakesIt) {
    const penstock::testing::TemporaryFolder folder;
    folder.fill("file", std::string(1'000'000, 'x'));
    ServerOptions wanted = options();
    wanted.on_failure = [](const http::ServerFailure&) {};
    http::Server server(wanted);
    expect(server.files("/", folder.path("")));
    talk(server, frame(headers_frame, whole_head, 1, head("/file")),
         [&](net::TcpStream& stream) -> Task<void> {
             std::size_t received = 0;
             EXPECT_EQ(expect_frame(co_await next_frame(stream)).type, headers_frame);
             while (received < 65'535) { // the window
                 received += expect_frame(co_await next_frame(stream)).payload.size();
             }
             std::filesystem::resize_file(folder.path("file"), received);
             const std::string million("\0\xF\x42\x40", 4);
             expect(co_await stream.write_all(frame(window_frame, 0, 0, million) +
                                              frame(window_frame, 0, 1, million)));
             for (;;) {
                 const Frame next = expect_frame(co_await next_frame(stream));
                 if (next.type == reset_frame) {
                     EXPECT_EQ(next.payload.back(), 2); // INTERNAL_ERROR
                     break;
                 }
                 received += next.payload.size();
             }
             EXPECT_LT(received, 300'000U); // what was read before the file was cut
         });
}

TEST_F(Http2Server, RefusesTheHostsAndTargetsThatHttp1Refuses) {
    struct Case {
        std::string_view authority;
        std::string_view path;
        bool valid;
    };
    constexpr char ok = '\x88'; // the places of 200 and 400 in the static table
    constexpr char bad_request = '\x8c';
    const auto text = [](std::string_view value) {
        return std::string(1, static_cast<char>(value.size())).append(value);
    };
    for (const Case& each :
         {Case{"a", "/a", true}, Case{"a:80", "/a", true}, Case{"[::1]:80", "/a", true},
          Case{"", "/a", false}, Case{"user@a", "/a", false}, Case{":80", "/a", false},
          Case{"a:99999", "/a", false}, Case{"::1", "/a", false}, Case{"a:b", "/a", false},
          Case{"a", "/a?#b", false}, Case{"a", "*", false}}) {
        http::Server server(options());
        server.get("/a", [](Request& /*request*/, Response& response) { response.body("found"); });
        const std::string head = "\x82\x86\x41" + text(each.authority) + "\x04" + text(each.path);
        talk(server, frame(headers_frame, whole_head, 1, head),
             [&](net::TcpStream& stream) -> Task<void> {
                 const Frame answer = expect_frame(co_await next_frame(stream));
                 if (answer.type == reset_frame) { // nghttp2 refuses some of them by itself
                     EXPECT_FALSE(each.valid) << each.authority << each.path;
                 } else {
                     EXPECT_EQ(answer.type, headers_frame);
                     EXPECT_EQ(answer.payload.front(), each.valid ? ok : bad_request)
                         << each.authority << each.path;
                 }
             });
    }
}

TEST_F(Http2Server, WithoutTheOptionThePrefaceIsRefused) {
    http::Server server;
    with_server(server, [](net::Endpoint endpoint) -> Task<void> {
        EXPECT_TRUE(
            (co_await penstock::testing::exchange(endpoint, begin())).starts_with("HTTP/1.1 400 "));
    });
}

} // namespace
