#include <penstock/http/server.hpp>

#include <penstock/fs/file.hpp>
#include <penstock/http/errors.hpp>
#include <penstock/stream/copy.hpp>
#include <penstock/stream/memory_stream.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/unwrap.hpp>

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "coro/http/site.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace penstock;
using http::Request;
using http::Response;
using http::Server;
using penstock::testing::echo;
using penstock::testing::error_of;
using penstock::testing::exchange;
using penstock::testing::expect;
using penstock::testing::get;
using penstock::testing::hello;
using penstock::testing::post;
using penstock::testing::read_until;
using penstock::testing::Site;
using penstock::testing::status_line;
using penstock::testing::with_server;
using penstock::testing::without_date;

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

/// It would be taken for the next response.
TEST(HttpServer, SendsNoFileBesideABodyThatWasSet) {
    const penstock::testing::TemporaryFolder folder;
    folder.fill("data", std::string(100'000, 'x'));
    Site site;
    site.server.get("/both", [&](Request&, Response& response) -> Task<Result<>> {
        response.body("set");
        fs::File file = co_await unwrap(fs::File::open(folder.path("data")));
        for (const std::uint64_t size : {10, 100'000}) {
            EXPECT_EQ(error_of(co_await response.send_file(file, 0, size)),
                      http::Error::response_sent);
        }
        co_return Result<>();
    });
    EXPECT_EQ(site.ask(get("/both") + get("/")), hello("set") + hello("root"));
}

TEST(HttpServer, DropsAnUnreadBodyOfAnySizeWithoutALimit) {
    http::ServerOptions options;
    options.limits.unread_body = UINT64_MAX;
    Site site(std::move(options));
    site.server.post("/some", [](Request& request, Response&) -> Task<Result<>> {
        std::array<char, 1> first{};
        EXPECT_EQ(co_await unwrap(request.read(first)), 1U);
        co_return Result<>();
    });
    EXPECT_EQ(site.ask(post("/some", std::string(1000, 'x')) + get("/")),
              hello("") + hello("root"));
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

} // namespace
