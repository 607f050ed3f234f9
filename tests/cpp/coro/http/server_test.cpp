#include <penstock/http/server.hpp>

#include <penstock/task/sleep.hpp>
#include <penstock/task/unwrap.hpp>

#include <array>
#include <initializer_list>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>

#include "coro/http/site.hpp"

namespace {

using namespace std::chrono_literals;
using namespace penstock;
using http::Request;
using http::Response;
using http::Server;
using penstock::testing::exchange;
using penstock::testing::expect;
using penstock::testing::get;
using penstock::testing::hello;
using penstock::testing::post;
using penstock::testing::Site;
using penstock::testing::with_server;
using penstock::testing::without_date;

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
