#include <penstock/http/content.hpp>

#include <penstock/http/preconditions.hpp>
#include <penstock/http/server.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "coro/http/running_server.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace penstock;
using namespace std::chrono_literals;
using http::Content;
using http::Method;
using http::Request;
using http::Response;
using http::Status;
using penstock::testing::exchange;
using penstock::testing::expect;
using penstock::testing::status_line;
using penstock::testing::with_server;

/// A body that is read in parts of at most 3 bytes, and ends early if told so.
struct SmallParts {
    std::string_view text;
    std::size_t end = std::string_view::npos;

    Task<Result<std::size_t>> read_at(std::uint64_t offset, MutableBytes into) {
        const std::string_view rest = text.substr(0, end).substr(static_cast<std::size_t>(offset));
        const std::size_t size = std::min({rest.size(), into.size(), std::size_t{3}});
        std::memcpy(into.data(), rest.data(), size);
        co_return size;
    }
};

const std::string_view text = "0123456789";
const std::chrono::sys_seconds changed = std::chrono::sys_days(std::chrono::year(2020) / 1 / 2);

Content content() {
    return {.size = text.size(),
            .content_type = "text/plain",
            .entity_tag = "\"7\"",
            .modified = changed,
            .cache_control = "no-cache"};
}

/// The same text by the three ways to send it.
struct Site {
    penstock::testing::TemporaryFolder folder;
    http::Server server;

    Site() {
        folder.fill("text", std::string(text));
        server.get("/memory", [](Request& request, Response& response) {
            return send_content(request, response, content(), Bytes(text));
        });
        server.get("/parts", [](Request& request, Response& response) -> Task<Result<>> {
            SmallParts body{.text = text};
            co_return co_await send_content(request, response, content(), body);
        });
        server.get("/file", [this](Request& request, Response& response) -> Task<Result<>> {
            fs::File file = co_await unwrap(fs::File::open(folder.path("text")));
            co_return co_await send_content(request, response, content(), file);
        });
        server.get("/weak", [](Request& request, Response& response) {
            Content weak = content();
            weak.entity_tag = "W/\"7\"";
            return send_content(request, response, weak, Bytes(text));
        });
    }

    std::string ask(std::string_view method, std::string_view path, std::string_view fields) {
        std::string answer;
        with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
            answer = co_await exchange(endpoint, std::string(method) + " " + std::string(path) +
                                                     " HTTP/1.1\r\nHost: a\r\n" +
                                                     std::string(fields) + "\r\n");
        });
        return answer;
    }
};

std::string body_of(const std::string& answer) {
    return answer.substr(answer.find("\r\n\r\n") + 4);
}

bool has(const std::string& answer, std::string_view line) {
    return answer.find("\r\n" + std::string(line) + "\r\n") != std::string::npos;
}

class HttpContent : public ::testing::TestWithParam<const char*> {};

TEST_P(HttpContent, TheWholeIsSentWithItsValidators) {
    const std::string answer = Site().ask("GET", GetParam(), "");
    EXPECT_EQ(status_line(answer), "HTTP/1.1 200 OK");
    EXPECT_TRUE(has(answer, "ETag: \"7\"")) << answer;
    EXPECT_TRUE(has(answer, "Last-Modified: Thu, 02 Jan 2020 00:00:00 GMT")) << answer;
    EXPECT_TRUE(has(answer, "Cache-Control: no-cache")) << answer;
    EXPECT_TRUE(has(answer, "Accept-Ranges: bytes")) << answer;
    EXPECT_TRUE(has(answer, "Content-Type: text/plain")) << answer;
    EXPECT_TRUE(has(answer, "Content-Length: 10")) << answer;
    EXPECT_EQ(body_of(answer), text);
}

TEST_P(HttpContent, HeadTellsTheSameWithoutTheBody) {
    const std::string answer = Site().ask("HEAD", GetParam(), "");
    EXPECT_TRUE(has(answer, "Content-Length: 10")) << answer;
    EXPECT_EQ(body_of(answer), "");
}

TEST_P(HttpContent, APartIsSentAlone) {
    const std::string answer = Site().ask("GET", GetParam(), "Range: bytes=2-6\r\n");
    EXPECT_EQ(status_line(answer), "HTTP/1.1 206 Partial Content");
    EXPECT_TRUE(has(answer, "Content-Range: bytes 2-6/10")) << answer;
    EXPECT_EQ(body_of(answer), "23456");
    EXPECT_EQ(body_of(Site().ask("GET", GetParam(), "Range: bytes=-3\r\n")), "789");
}

TEST_P(HttpContent, APartOutsideIsRefused) {
    const std::string answer = Site().ask("GET", GetParam(), "Range: bytes=10-\r\n");
    EXPECT_EQ(status_line(answer), "HTTP/1.1 416 Range Not Satisfiable");
    EXPECT_TRUE(has(answer, "Content-Range: bytes */10")) << answer;
    EXPECT_FALSE(answer.contains("Cache-Control")) << answer; // that is the content's
}

TEST_P(HttpContent, WhatTheClientHasIsNotSent) {
    for (const char* condition : {"If-None-Match: \"1\", W/\"7\"\r\n", "If-None-Match: *\r\n",
                                  "If-Modified-Since: Thu, 02 Jan 2020 00:00:00 GMT\r\n"}) {
        const std::string answer = Site().ask("GET", GetParam(), condition);
        EXPECT_EQ(status_line(answer), "HTTP/1.1 304 Not Modified") << condition;
        EXPECT_TRUE(has(answer, "ETag: \"7\"")) << answer;
        EXPECT_TRUE(has(answer, "Cache-Control: no-cache")) << answer;
        EXPECT_EQ(body_of(answer), "");
    }
    const std::string answer = Site().ask("GET", GetParam(), "If-Match: \"1\"\r\n");
    EXPECT_EQ(status_line(answer), "HTTP/1.1 412 Precondition Failed");
    EXPECT_FALSE(answer.contains("Cache-Control")) << answer;
}

INSTANTIATE_TEST_SUITE_P(Bodies, HttpContent, ::testing::Values("/memory", "/parts", "/file"),
                         [](const auto& info) { return std::string(info.param + 1); });

TEST(HttpContents, AWeakTagAllowsNoConditionalPart) {
    EXPECT_EQ(status_line(Site().ask("GET", "/weak", "If-None-Match: \"7\"\r\n")),
              "HTTP/1.1 304 Not Modified");
    EXPECT_EQ(status_line(Site().ask("GET", "/weak", "If-Match: W/\"7\"\r\n")),
              "HTTP/1.1 412 Precondition Failed");
    EXPECT_EQ(status_line(Site().ask("GET", "/weak", "Range: bytes=1-\r\nIf-Range: W/\"7\"\r\n")),
              "HTTP/1.1 200 OK");
}

TEST(HttpContents, ABodyThatEndsEarlyIsNotTakenForTheWhole) {
    http::ServerOptions options;
    std::string failure;
    options.on_failure = [&](const http::ServerFailure& told) { failure = told.to_string(); };
    http::Server server(std::move(options));
    server.get("/short", [](Request& request, Response& response) -> Task<Result<>> {
        SmallParts body{.text = text, .end = 5};
        co_return co_await send_content(request, response, content(), body);
    });
    Result<std::string> received;
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await stream.write_all("GET /short HTTP/1.1\r\nHost: a\r\n\r\n"));
        received = co_await read_all_text(stream);
    });
    EXPECT_FALSE(received.has_value());
    EXPECT_EQ(failure, "GET /short: the body does not have the length that was announced");
}

TEST(Preconditions, OtherMethodsThanGetAndHeadFail) {
    const std::vector<http::Field> storage{{.name = "If-None-Match", .value = "*"}};
    const http::Validators current{.entity_tag = "\"1\""};
    for (const Method method : {Method::put, Method::delete_, Method::post}) {
        EXPECT_EQ(check_preconditions(method, http::Fields(storage), current, 0),
                  Status::precondition_failed);
    }
    EXPECT_EQ(check_preconditions(Method::get, http::Fields(storage), current, 0),
              Status::not_modified);
}

TEST(Preconditions, WithoutATimeDatesAreNotCompared) {
    const std::string_view date = "Thu, 02 Jan 2020 00:00:00 GMT";
    for (const std::string_view name : {"If-Modified-Since", "If-Unmodified-Since"}) {
        const std::vector<http::Field> storage{{.name = name, .value = date}};
        EXPECT_EQ(
            check_preconditions(Method::get, http::Fields(storage), {.entity_tag = "\"1\""}, 0),
            Status::ok)
            << name;
    }
}

} // namespace
