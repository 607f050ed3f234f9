#include <penstock/http/server.hpp>

#include <penstock/fs/file.hpp>
#include <penstock/http/errors.hpp>
#include <penstock/net/unix_listener.hpp>
#include <penstock/stream/copy.hpp>
#include <penstock/stream/memory_stream.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/unwrap.hpp>

#include <initializer_list>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "coro/http/running_server.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace std::chrono_literals;
using namespace penstock;
using http::Request;
using http::Response;
using http::Server;
using http::ServerFailure;
using penstock::testing::exchange;
using penstock::testing::expect;
using penstock::testing::read_until;
using penstock::testing::status_line;
using penstock::testing::with_server;
using penstock::testing::without_date;

std::string get(std::string_view path, std::string_view fields = {}) {
    return "GET " + std::string(path) + " HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n";
}

std::string post(std::string_view path, std::string_view body) {
    return "POST " + std::string(path) +
           " HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
           std::string(body);
}

template <typename T> std::error_code error_of(const Result<T>& result) {
    return result ? std::error_code() : result.error();
}

std::string hello(std::string_view body) {
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
           std::string(body);
}

Task<Result<>> echo(Request& request, Response& response) {
    response.body(co_await unwrap(request.text()));
    co_return Result<>();
}

/// The servers of these tests.
struct Site {
    std::vector<std::string> failures;
    Server server;

    explicit Site(http::ServerOptions options = {})
        : server([&] {
              options.on_failure = [this](const ServerFailure& failure) {
                  failures.push_back(failure.to_string());
              };
              return std::move(options);
          }()) {
        server.get("/", [](Request&, Response& response) { response.body("root"); });
        server.get("/hello/{name}", [](Request& request, Response& response) {
            response.body("hello " + request.parameter("name"));
        });
        server.post("/echo", echo);
    }

    std::string ask(std::string text) {
        std::string answer;
        with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
            answer = co_await exchange(endpoint, std::move(text));
        });
        return without_date(answer);
    }
};

TEST(HttpServer, AnswersWithLengthAndDate) {
    Site site;
    std::string answer;
    with_server(site.server, [&](net::Endpoint endpoint) -> Task<void> {
        answer = co_await exchange(endpoint, get("/"));
    });
    EXPECT_NE(answer.find("\r\nDate: "), std::string::npos);
    EXPECT_EQ(without_date(answer), hello("root"));
    EXPECT_EQ(site.failures, std::vector<std::string>());
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
    Site site;
    EXPECT_EQ(site.ask(get("/hello/a") + post("/echo", "b") + get("/hello/c") + get("/")),
              hello("hello a") + hello("b") + hello("hello c") + hello("root"));
}

TEST(HttpServer, AnswersHoweverRequestsAreCut) {
    Site site;
    std::mt19937 random(7); // NOLINT(bugprone-random-generator-seed): repeatable
    std::string requests;
    std::string expected;
    for (int i = 0; i < 60; ++i) {
        const std::string text(random() % 300, static_cast<char>('a' + i % 26));
        switch (random() % 3) {
        case 0:
            requests += get("/hello/x" + text);
            expected += hello("hello x" + text);
            break;
        case 1:
            requests += post("/echo", text);
            expected += hello(text);
            break;
        default:
            requests += "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
            for (std::size_t at = 0; at < text.size(); at += 40) {
                const std::string part = text.substr(at, 40);
                std::array<char, 8> size{};
                (void)std::snprintf(size.data(), size.size(), "%zx", part.size());
                requests += std::string(size.data()) + ";x=y\r\n" + part + "\r\n";
            }
            requests += "0\r\nTrailer: " + text + "\r\n\r\n";
            expected += hello(text);
        }
    }
    with_server(site.server, [&](net::Endpoint endpoint) -> Task<void> {
        for (int round = 0; round < 10; ++round) {
            net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
            for (std::size_t at = 0; at < requests.size();) {
                const std::size_t most = round == 0 ? 1 : 1 + random() % 700;
                const std::string part = requests.substr(at, most);
                expect(co_await stream.write_all(part));
                at += part.size();
                (void)co_await sleep_for(0s); // the server reads in between
            }
            expect(stream.shutdown());
            EXPECT_EQ(without_date(expect(co_await read_all_text(stream))), expected);
        }
    });
    EXPECT_EQ(site.failures, std::vector<std::string>());
}

TEST(HttpServer, DecodesParametersOfPathAndQuery) {
    Site site;
    site.server.get("/q", [](Request& request, Response& response) {
        response.body(request.query_parameter("a").value_or("none") + "|" +
                      std::string(request.query()));
    });
    EXPECT_EQ(site.ask(get("/hello/a%20b%2Fc") + get("/q?b=1&a=x+y%26") + get("/q") +
                       get("http://elsewhere/%68ello/z")),
              hello("hello a b/c") + hello("x y&|b=1&a=x+y%26") + hello("none|") +
                  hello("hello z"));
}

TEST(HttpServer, PrefersLiteralSegments) {
    Site site;
    site.server.get("/hello/me", [](Request&, Response& response) { response.body("me"); });
    site.server.get("/hello/{name}/{rest...}", [](Request& request, Response& response) {
        response.body(request.parameter("name") + ":" + request.parameter("rest"));
    });
    EXPECT_EQ(
        site.ask(get("/hello/me") + get("/hello/you") + get("/hello/me/a/b") + get("/hello/x/")),
        hello("me") + hello("hello you") + hello("me:a/b") + hello("x:"));
}

TEST(HttpServer, RefusesUnknownPathsAndMethods) {
    Site site;
    const std::string answers =
        site.ask(get("/nowhere") + post("/hello/x", "body") +
                 "OPTIONS /echo HTTP/1.1\r\nHost: a\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n" +
                 get("/%zz") + get("/"));
    EXPECT_EQ(answers,
              "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\n"
              "Content-Length: 14\r\n\r\n404 Not Found\n"
              "HTTP/1.1 405 Method Not Allowed\r\nContent-Type: text/plain; charset=utf-8\r\n"
              "Allow: GET, HEAD, OPTIONS\r\nContent-Length: 23\r\n\r\n405 Method Not Allowed\n"
              "HTTP/1.1 204 No Content\r\nAllow: POST, OPTIONS\r\n\r\n"
              "HTTP/1.1 204 No Content\r\nAllow: OPTIONS\r\n\r\n"
              "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
              "Content-Length: 16\r\n\r\n400 Bad Request\n" +
                  hello("root"));
}

TEST(HttpServer, NamesTheMethodsOfEveryPatternThatAPathMatches) {
    Site site;
    const auto nothing = [](Request&, Response&) {};
    site.server.get("/{all...}", nothing);
    site.server.post("/a/{name}", nothing);
    site.server.put("/a/b", nothing);
    site.server.get("/a/b", nothing);
    site.server.put("/a/c", nothing);
    EXPECT_EQ(site.ask("OPTIONS /a/b HTTP/1.1\r\nHost: a\r\n\r\n" + get("/")).substr(0, 65),
              "HTTP/1.1 204 No Content\r\nAllow: PUT, GET, HEAD, POST, OPTIONS\r\n\r\n");
}

TEST(HttpServer, AnswersHeadLikeGetWithoutTheBody) {
    Site site;
    site.server.get("/stream", [](Request&, Response& response) -> Task<Result<>> {
        for (;;) { // ends because a response to HEAD has no body
            co_await unwrap(response.write_all("part"));
        }
    });
    EXPECT_EQ(
        site.ask("HEAD / HTTP/1.1\r\nHost: a\r\n\r\nHEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n" +
                 get("/")),
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nHTTP/1.1 200 OK\r\n\r\n" + hello("root"));
    EXPECT_EQ(site.failures, std::vector<std::string>());
}

TEST(HttpServer, SendsNoContentWithAStatusThatHasNone) {
    const std::initializer_list<std::pair<http::Status, std::string>> cases{
        {http::Status::no_content, "HTTP/1.1 204 No Content\r\n\r\n"},
        {http::Status::reset_content, "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n"},
        {http::Status::not_modified, "HTTP/1.1 304 Not Modified\r\n\r\n"},
    };
    for (const auto& [status, answer] : cases) {
        Site site;
        site.server.get("/whole", [&](Request&, Response& response) {
            response.status(status);
            response.body("x");
        });
        site.server.get("/parts", [&](Request&, Response& response) -> Task<Result<>> {
            response.status(status);
            co_return co_await response.write_all("x");
        });
        std::string requests = get("/whole");
        requests += get("/parts");
        requests += "HEAD /whole HTTP/1.1\r\nHost: a\r\n\r\n";
        requests += get("/");
        std::string answers;
        for (int number = 0; number < 3; ++number) {
            answers += answer;
        }
        answers += hello("root");
        EXPECT_EQ(site.ask(requests), answers);
        EXPECT_EQ(site.failures, std::vector<std::string>());
    }
}

TEST(HttpServer, RefusesWhatItIsNotExpectedToKnow) {
    Site site;
    EXPECT_EQ(site.ask("POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue, foo\r\n"
                       "Content-Length: 1\r\n\r\n"),
              "HTTP/1.1 417 Expectation Failed\r\nContent-Type: text/plain; charset=utf-8\r\n"
              "Content-Length: 23\r\nConnection: close\r\n\r\n417 Expectation Failed\n");
    Site old; // HTTP/1.0 expects nothing
    EXPECT_EQ(old.ask("POST /echo HTTP/1.0\r\nExpect: foo\r\nContent-Length: 1\r\n\r\na"),
              "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\na");
}

TEST(HttpServer, ClosesWhenTheClientAsksForIt) {
    Site site;
    EXPECT_EQ(site.ask(get("/", "Connection: close\r\n") + get("/")),
              "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nroot");
    Site old;
    EXPECT_EQ(old.ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.0\r\n\r\n"),
              "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: keep-alive\r\n\r\nroot"
              "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nroot");
}

TEST(HttpServer, StreamsAResponseInChunks) {
    Site site;
    site.server.get("/count", [](Request&, Response& response) -> Task<Result<>> {
        response.header("Content-Type", "text/plain");
        for (const std::string_view part : {"one", "", "two"}) {
            co_await unwrap(response.write_all(part));
        }
        co_return Result<>();
    });
    site.server.get("/length", [](Request&, Response& response) -> Task<Result<>> {
        response.content_length(6);
        co_await unwrap(response.write_all("one"));
        co_return co_await response.write_all("two");
    });
    EXPECT_EQ(site.ask(get("/count") + get("/length")),
              "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
              "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n" +
                  hello("onetwo"));
    Site old;
    old.server.get("/count", [](Request&, Response& response) -> Task<Result<>> {
        co_await unwrap(response.write_all("one"));
        co_return co_await response.write_all("two");
    });
    EXPECT_EQ(old.ask("GET /count HTTP/1.0\r\n\r\n"),
              "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nonetwo");
}

TEST(HttpServer, StreamsARequestWithBackPressure) {
    Site site;
    constexpr std::size_t size = std::size_t{8} * 1024 * 1024;
    site.server.post("/mirror",
                     [](Request& request, Response& response) -> Task<Result<>> {
                         response.content_length(*request.content_length());
                         const Result<std::uint64_t> copied = co_await copy(request, response);
                         co_return copied ? Result<>() : failure(copied.error());
                     },
                     {.body_limit = size});
    std::string sent(size, ' ');
    std::mt19937 random(3); // NOLINT(bugprone-random-generator-seed): repeatable
    for (char& c : sent) {
        c = static_cast<char>(random());
    }
    with_server(site.server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        const auto write = [&]() -> Task<Result<>> {
            const std::string head =
                "POST /mirror HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(size) +
                "\r\n\r\n";
            co_return co_await stream.write_all(head, sent);
        };
        const auto read = [&]() -> Task<Result<std::string>> {
            (void)co_await read_until(stream, "\r\n\r\n");
            std::string body(size, ' ');
            co_await unwrap(stream.read_exactly(body));
            co_return body;
        };
        const auto both = expect(co_await all(write(), read()));
        EXPECT_TRUE(std::get<1>(both) == sent);
    });
    EXPECT_EQ(site.failures, std::vector<std::string>());
}

TEST(HttpServer, SendsContinueWhenTheBodyIsRead) {
    Site site;
    site.server.post(
        "/refuse", [](Request&, Response& response) { response.status(http::Status::forbidden); });
    with_server(site.server, [&](net::Endpoint endpoint) -> Task<void> {
        const std::string fields =
            " HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await stream.write_all("POST /echo", fields));
        EXPECT_EQ(co_await read_until(stream, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
        expect(co_await stream.write_all("body"));
        EXPECT_EQ(without_date(co_await read_until(stream, "body")), hello("body"));
        // A body that was not asked for may come or not, so the connection cannot go on.
        expect(co_await stream.write_all("POST /refuse", fields));
        EXPECT_EQ(without_date(expect(co_await read_all_text(stream))),
                  "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
}

TEST(HttpServer, ReceivesWhileItSends) {
    Site site;
    const auto receive = [](Request& request, std::string& text) -> Task<Result<>> {
        text = co_await unwrap(request.text());
        co_return Result<>();
    };
    const auto send = [](Response& response) -> Task<Result<>> {
        co_return co_await response.write_all("sent meanwhile, ");
    };
    site.server.post("/both", [&](Request& request, Response& response) -> Task<Result<>> {
        std::string text;
        const auto ended = co_await all(receive(request, text), send(response));
        co_return ended ? co_await response.write_all(text) : failure(ended.error());
    });
    // Its buffer is smaller than "100 Continue", which is therefore not sent at once.
    auto [near, far] = MemoryStream::pair(8);
    const auto client = [&]() -> Task<std::string> {
        expect(co_await near.write_all("POST /both HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                                       "Content-Length: 4\r\nExpect: 100-continue\r\n\r\n"));
        EXPECT_EQ(co_await read_until(near, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
        expect(co_await near.write_all("body"));
        co_return expect(co_await read_all_text(near));
    };
    const auto body = [&]() -> Task<std::string> {
        const auto results = co_await all(client(), site.server.serve_connection(std::move(far)));
        co_return std::get<0>(results);
    };
    EXPECT_EQ(without_date(run(body())),
              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
              "10\r\nsent meanwhile, \r\n4\r\nbody\r\n0\r\n\r\n");
    EXPECT_EQ(site.failures, std::vector<std::string>());
}

TEST(HttpServer, ReadsTrailers) {
    Site site;
    site.server.post("/trailer", [](Request& request, Response& response) -> Task<Result<>> {
        (void)co_await unwrap(request.text());
        response.body(std::string(request.trailers().find("x-sum").value_or("none")));
        co_return Result<>();
    });
    EXPECT_EQ(site.ask("POST /trailer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n" +
                       get("/")),
              hello("7") + hello("root"));
}

TEST(HttpServer, AnswersAFailedHandlerWith500) {
    Site site;
    site.server.get("/throw", [](Request&, Response&) { throw std::runtime_error("oh no"); });
    site.server.get("/fail", [](Request&, Response& response) -> Task<Result<>> {
        response.header("Secret", "x");
        response.body("not sent");
        co_return failure(std::errc::io_error);
    });
    site.server.get("/inject", [](Request& request, Response& response) {
        response.header("X", *request.query_parameter("x"));
    });
    const std::string answer =
        site.ask(get("/throw") + get("/fail") + get("/inject?x=a%0d%0aSet-Cookie:%20b") + get("/"));
    const std::string failed =
        "HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain; charset=utf-8\r\n"
        "Content-Length: 26\r\n\r\n500 Internal Server Error\n";
    EXPECT_EQ(answer, failed + failed + failed + hello("root"));
    ASSERT_EQ(site.failures.size(), 3);
    EXPECT_EQ(site.failures[0], "GET /throw: oh no");
    EXPECT_EQ(site.failures[1],
              "GET /fail: " + std::make_error_code(std::errc::io_error).message());
    EXPECT_NE(site.failures[2].find("control character"), std::string::npos);
}

TEST(HttpServer, ResetsTheConnectionWhenAStartedResponseFails) {
    Site site;
    site.server.get("/half", [](Request&, Response& response) -> Task<Result<>> {
        co_await unwrap(response.write_all("half"));
        co_return failure(std::errc::io_error);
    });
    site.server.get("/short", [](Request&, Response& response) -> Task<Result<>> {
        response.content_length(10);
        co_return co_await response.write_all("short");
    });
    site.server.get("/long", [](Request&, Response& response) -> Task<Result<>> {
        response.content_length(2);
        co_return co_await response.write_all("long");
    });
    with_server(site.server, [&](net::Endpoint endpoint) -> Task<void> {
        for (const std::string_view path : {"/half", "/short", "/long"}) {
            net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
            expect(co_await stream.write_all(get(path)));
            const Result<std::string> text = co_await read_all_text(stream);
            EXPECT_EQ(error_of(text), std::errc::connection_reset) << path;
        }
    });
    EXPECT_EQ(site.failures.size(), 3);
}

TEST(HttpServer, SendsNoMoreOfAFileThanWasAnnounced) {
    const penstock::testing::TemporaryFolder folder;
    folder.fill("data", std::string(100'000, 'x'));
    Site site;
    const auto send = [&](std::uint64_t announced, std::uint64_t written, std::uint64_t size) {
        return [&folder, announced, written, size](Request&, Response& response) -> Task<Result<>> {
            fs::File file = co_await unwrap(fs::File::open(folder.path("data")));
            response.content_length(announced);
            if (written > 0) {
                co_await unwrap(response.write_all(std::string(written, 'w')));
            }
            co_return co_await response.send_file(file, 0, size);
        };
    };
    // By sendfile(2), and copied.
    site.server.get("/large", send(10, 0, 100'000));
    site.server.get("/small", send(10, 0, 20));
    site.server.get("/large-rest", send(60'000, 1, 60'000));
    site.server.get("/small-rest", send(10, 1, 10));
    site.server.get("/exact", send(10, 1, 9));
    with_server(site.server, [&](net::Endpoint endpoint) -> Task<void> {
        for (const std::string_view path : {"/large", "/small"}) {
            const std::string refused = co_await exchange(endpoint, get(path));
            EXPECT_EQ(status_line(refused), "HTTP/1.1 500 Internal Server Error");
        }
        const std::string exact = co_await exchange(endpoint, get("/exact"));
        EXPECT_TRUE(exact.ends_with("\r\n\r\nwxxxxxxxxx"));
        for (const std::string_view path : {"/large-rest", "/small-rest"}) {
            net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
            expect(co_await stream.write_all(get(path)));
            EXPECT_TRUE((co_await read_until(stream, "\r\n\r\nw")).starts_with("HTTP/1.1 200 "));
            EXPECT_EQ(error_of(co_await read_all_text(stream)), std::errc::connection_reset);
        }
    });
    EXPECT_EQ(site.failures.size(), 4);
}

TEST(HttpServer, LimitsBodies) {
    http::ServerOptions options;
    options.limits.body = 10;
    options.limits.unread_body = 100;
    Site site(std::move(options));
    site.server.post("/large", echo, {.body_limit = 20});
    const std::string too_large =
        "HTTP/1.1 413 Content Too Large\r\nContent-Type: text/plain; charset=utf-8\r\n"
        "Content-Length: 22\r\n";
    EXPECT_EQ(site.ask(post("/echo", std::string(10, 'x')) + post("/echo", std::string(11, 'x')) +
                       post("/large", std::string(20, 'x')) +
                       post("/large", std::string(200, 'x')) + get("/")),
              hello(std::string(10, 'x')) + too_large + "\r\n413 Content Too Large\n" +
                  hello(std::string(20, 'x')) + too_large +
                  "Connection: close\r\n\r\n413 Content Too Large\n");
    Site chunked([] {
        http::ServerOptions small;
        small.limits.body = 10;
        return small;
    }());
    EXPECT_EQ(chunked.ask("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                          "9\r\n123456789\r\n2\r\n12\r\n0\r\n\r\n" +
                          get("/")),
              too_large + "Connection: close\r\n\r\n413 Content Too Large\n");
    EXPECT_EQ(chunked.failures, std::vector<std::string>());
}

TEST(HttpServer, DropsAnUnreadBody) {
    Site site;
    site.server.post("/ignore", [](Request&, Response& response) { response.body("ok"); });
    EXPECT_EQ(site.ask(post("/ignore", std::string(1000, 'x')) + get("/")),
              hello("ok") + hello("root"));
}

TEST(HttpServer, ServesAnyStream) {
    Site site;
    auto [near, far] = MemoryStream::pair();
    const auto client = [&]() -> Task<std::string> {
        expect(co_await near.write_all(get("/hello/a") + post("/echo", "b")));
        expect(near.shutdown());
        co_return expect(co_await read_all_text(near));
    };
    const auto body = [&]() -> Task<std::string> {
        const auto results = co_await all(client(), site.server.serve_connection(std::move(far)));
        co_return std::get<0>(results);
    };
    EXPECT_EQ(without_date(run(body())), hello("hello a") + hello("b"));
    const penstock::testing::TemporaryFolder folder;
    const net::UnixEndpoint endpoint = *net::UnixEndpoint::path(folder.path("socket"));
    const auto local = [&]() -> Task<Result<>> {
        auto stream = co_await unwrap(net::UnixStream::connect(endpoint));
        co_await unwrap(stream.write_all(get("/")));
        EXPECT_EQ(without_date(co_await read_until(stream, "root")), hello("root"));
        site.server.stop(1s);
        co_return Result<>();
    };
    expect(run(all(site.server.serve(expect(net::UnixListener::listen(endpoint))), local())));
}

TEST(HttpServer, TellsWhoAsks) {
    std::vector<Result<net::Endpoint>> peers;
    std::vector<Result<net::Endpoint>> locals;
    http::Server server;
    server.get("/", [&](http::Request& request, http::Response&) {
        peers.push_back(request.peer_endpoint());
        locals.push_back(request.local_endpoint());
    });
    auto [near, far] = MemoryStream::pair();
    const auto in_memory = [&]() -> Task<void> {
        expect(co_await near.write_all(get("/")));
        expect(near.shutdown());
        (void)expect(co_await read_all_text(near));
    };
    const auto both = [&]() -> Task<void> {
        co_await all(in_memory(), server.serve_connection(std::move(far)));
    };
    run(both());
    net::Endpoint client;
    net::Endpoint listening;
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        listening = endpoint;
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        client = expect(stream.local_endpoint());
        expect(co_await stream.write_all(get("/")));
        expect(stream.shutdown());
        (void)expect(co_await read_all_text(stream));
    });
    ASSERT_EQ(peers.size(), 2U);
    EXPECT_EQ(peers[0].error(), std::errc::not_supported);
    EXPECT_EQ(locals[0].error(), std::errc::not_supported);
    EXPECT_EQ(peers[1].value(), client);
    EXPECT_EQ(locals[1].value(), listening);
}

TEST(HttpServer, HandsAConnectionOver) {
    Site site;
    site.server.upgrade("/up", "shout", [](http::Upgrade& upgrade) -> Task<Result<>> {
        EXPECT_NE(upgrade.stream<net::TcpStream>(), nullptr);
        EXPECT_EQ(upgrade.stream<net::UnixStream>(), nullptr);
        EXPECT_EQ(upgrade.request().path(), "/up");
        EXPECT_EQ(upgrade.head().fields.find("x"), "y");
        co_await unwrap(upgrade.write_all(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n"));
        for (;;) {
            std::array<char, 16> bytes{};
            const std::size_t size = co_await unwrap(upgrade.read(bytes));
            if (size == 0) {
                co_return Result<>();
            }
            for (char& c : bytes) {
                c = static_cast<char>(std::toupper(c));
            }
            co_await unwrap(upgrade.write_all(Bytes(bytes.data(), size)));
        }
    });
    EXPECT_EQ(site.ask(get("/hello/a") +
                       get("/up", "Connection: upgrade\r\nUpgrade: shout\r\nX: y\r\n") + "hello"),
              hello("hello a") +
                  "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
                  "shout\r\n\r\nHELLO");
    Site refusing;
    refusing.server.upgrade("/up", "shout",
                            [](http::Upgrade&) -> Task<Result<>> { co_return Result<>(); });
    EXPECT_EQ(refusing.ask(get("/up") + get("/")),
              "HTTP/1.1 426 Upgrade Required\r\nContent-Type: text/plain; charset=utf-8\r\n"
              "Connection: Upgrade\r\nUpgrade: shout\r\nContent-Length: 21\r\n\r\n"
              "426 Upgrade Required\n" +
                  hello("root"));
}

TEST(HttpServer, FinishesWhatRunsWhenItStops) {
    Site site;
    sync::Event started;
    sync::Event released;
    site.server.get("/slow", [&](Request&, Response& response) -> Task<void> {
        started.set();
        (void)co_await released.wait();
        response.body("slow");
    });
    const auto body = [&]() -> Task<void> {
        net::TcpListener listener = penstock::testing::listen_on_loopback();
        const net::Endpoint endpoint = expect(listener.local_endpoint());
        const auto client = [&]() -> Task<Result<>> {
            net::TcpStream idle = expect(co_await net::TcpStream::connect(endpoint));
            expect(co_await idle.write_all(get("/")));
            EXPECT_EQ(without_date(co_await read_until(idle, "root")), hello("root"));
            net::TcpStream busy = expect(co_await net::TcpStream::connect(endpoint));
            expect(co_await busy.write_all(get("/slow")));
            (void)co_await started.wait();
            site.server.stop(1h);
            EXPECT_EQ(expect(co_await read_all_text(idle)), "");
            const Result<net::TcpStream> late = co_await net::TcpStream::connect(endpoint);
            EXPECT_EQ(error_of(late), std::errc::connection_refused);
            released.set();
            EXPECT_EQ(without_date(expect(co_await read_all_text(busy))),
                      "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nslow");
            co_return Result<>();
        };
        expect(co_await all(site.server.serve(std::move(listener)), client()));
    };
    run(body());
    EXPECT_EQ(site.server.connections(), 0);
}

TEST(HttpServer, CancelsWhatRunsAfterTheGracePeriod) {
    Site site;
    sync::Event started;
    site.server.get("/forever", [&](Request&, Response&) -> Task<Result<>> {
        started.set();
        co_return co_await sleep_for(1h);
    });
    const auto body = [&]() -> Task<void> {
        net::TcpListener listener = penstock::testing::listen_on_loopback();
        const net::Endpoint endpoint = expect(listener.local_endpoint());
        const auto client = [&]() -> Task<Result<>> {
            net::TcpStream busy = expect(co_await net::TcpStream::connect(endpoint));
            expect(co_await busy.write_all(get("/forever")));
            (void)co_await started.wait();
            site.server.stop(0s);
            EXPECT_EQ(expect(co_await read_all_text(busy)), "");
            co_return Result<>();
        };
        expect(co_await all(site.server.serve(std::move(listener)), client()));
    };
    run(body());
}

TEST(HttpServer, WaitsAtItsConnectionLimit) {
    http::ServerOptions options;
    options.limits.connections = 1;
    options.timeouts.safe_idle = 1h;
    Site site(std::move(options));
    with_server(site.server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream first = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await first.write_all(get("/")));
        (void)co_await read_until(first, "root");
        net::TcpStream second = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await second.write_all(get("/")));
        expect(co_await first.write_all(get("/")));
        (void)co_await read_until(first, "root");
        EXPECT_EQ(site.server.connections(), 1);
        first.close();
        (void)co_await read_until(second, "root");
    });
}

TEST(HttpServer, RefusesInvalidRoutes) {
    Server server;
    const auto handler = [](Request&, Response&) {};
    server.get("/a/{b}", handler);
    EXPECT_THROW(server.get("/a/{c}", handler), std::invalid_argument);
    EXPECT_THROW(server.get("a", handler), std::invalid_argument);
    EXPECT_THROW(server.get("/a?b", handler), std::invalid_argument);
    EXPECT_THROW(server.get("/x{b}", handler), std::invalid_argument);
    EXPECT_THROW(server.get("/{b}/{b}", handler), std::invalid_argument);
    EXPECT_THROW(server.get("/{b...}/c", handler), std::invalid_argument);
    EXPECT_THROW(server.get("/{}", handler), std::invalid_argument);
    EXPECT_THROW(server.route(http::Method("A B"), "/", handler), std::invalid_argument);
    server.post("/a/{c}", handler);
}

} // namespace
