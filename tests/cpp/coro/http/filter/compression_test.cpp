// Responses with a content coding: when, how they are decoded, and what they tell of it.

#include <penstock/codec/http/content_encoder.hpp>
#include <penstock/http/content.hpp>
#include <penstock/http/errors.hpp>
#include <penstock/http/filter/chain.hpp>
#include <penstock/http/filter/compression.hpp>
#include <penstock/http/filter/conditional.hpp>
#include <penstock/http/server.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/unwrap.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "coro/http/running_server.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace penstock;
using codec::http::ContentCoding;
using codec::http::ContentEncoder;
using http::chain;
using http::Compression;
using http::Request;
using http::Response;
using penstock::testing::exchange;
using penstock::testing::expect;
using penstock::testing::read_until;
using penstock::testing::status_line;
using penstock::testing::TemporaryFolder;
using penstock::testing::with_server;

/// A coding that a reader can see: each part in brackets, the end as a point.
class Bracketed final : public ContentEncoder {
public:
    void encode(std::span<const std::byte> part, std::string& output) override {
        output += '[';
        output.append(reinterpret_cast<const char*>(part.data()), part.size());
        output += ']';
    }
    void finish(std::span<const std::byte> part, std::string& output) override {
        if (!part.empty()) {
            encode(part, output);
        }
        output += '.';
    }
};

ContentCoding bracketed(std::string name) {
    return {.name = std::move(name), .make = [] { return std::make_unique<Bracketed>(); }};
}

/// With the codings "one" and "gzip".
const Compression& compression() {
    static const Compression made({.codings = {bracketed("one"), bracketed("gzip")}, .least = 10});
    return made;
}

std::string get(const std::string& accepted, const std::string& more = "",
                const std::string& method = "GET") {
    return method + " / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" +
           (accepted.empty() ? "" : "Accept-Encoding: " + accepted + "\r\n") + more + "\r\n";
}

template <typename Handler> std::string answer(Handler handler, const std::string& request) {
    http::Server server({.on_failure = [](const http::ServerFailure&) {}});
    server.get("/", chain(compression(), std::move(handler)));
    std::string found;
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await stream.write_all(request));
        found = (co_await read_all_text(stream)).value_or("reset");
    });
    return found;
}

std::string body_of(const std::string& answer) {
    return answer.substr(std::min(answer.size(), answer.find("\r\n\r\n") + 4));
}

auto text(std::string type = "text/plain", std::string body = "a text of some size") {
    return
        [type = std::move(type), body = std::move(body)](Request& /*request*/, Response& response) {
            response.header("Content-Type", type);
            response.header("ETag", "\"7\"");
            response.header("Accept-Ranges", "bytes");
            response.body(body);
        };
}

/// Tells which part of its body each is.
class Numbered final : public ContentEncoder {
public:
    void encode(std::span<const std::byte> part, std::string& output) override {
        output += std::to_string(++parts_) + ":";
        output.append(reinterpret_cast<const char*>(part.data()), part.size());
    }
    void finish(std::span<const std::byte> part, std::string& output) override {
        encode(part, output);
    }

private:
    int parts_ = 0;
};

TEST(Compression, APartThatIsRefusedDoesNotChangeTheBodyThatWasSet) {
    const Compression numbered(
        {.codings = {{.name = "one", .make = [] { return std::make_unique<Numbered>(); }}},
         .least = 10});
    const TemporaryFolder folder;
    folder.fill("data", "what is in a file");
    const auto handler = [&](Request& /*request*/, Response& response) -> Task<Result<>> {
        response.header("Content-Type", "text/plain");
        response.body("a text of some size");
        EXPECT_EQ((co_await response.write_all("another text of some size")).error(),
                  http::Error::response_sent);
        fs::File file = co_await unwrap(fs::File::open(folder.path("data")));
        EXPECT_EQ((co_await response.send_file(file, 0, 10)).error(), http::Error::response_sent);
        co_return Result<>();
    };
    http::Server server;
    server.get("/", chain(numbered, handler));
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        const std::string found = co_await exchange(endpoint, get("one"));
        EXPECT_EQ(body_of(found), "1:a text of some size");
    });
}

TEST(Compression, AWholeBodyIsCodedAsTheClientAccepts) {
    const std::string found = answer(text(), get("one"));
    EXPECT_EQ(status_line(found), "HTTP/1.1 200 OK");
    EXPECT_TRUE(found.contains("Content-Encoding: one\r\n"));
    EXPECT_TRUE(found.contains("Vary: Accept-Encoding\r\n"));
    EXPECT_TRUE(found.contains("ETag: W/\"7\"\r\n"));
    EXPECT_TRUE(found.contains("Content-Length: 22\r\n"));
    EXPECT_FALSE(found.contains("Accept-Ranges"));
    EXPECT_EQ(body_of(found), "[a text of some size].");
}

TEST(Compression, TheClientChooses) {
    struct Case {
        const char* accepted;
        const char* coding;
    };
    constexpr std::array cases{
        Case{"gzip", "gzip"},
        Case{"x-gzip", "gzip"},
        Case{"GZIP", "gzip"},
        Case{"gzip, one", "one"}, // the server's order
        Case{"gzip, one;q=0.9", "gzip"},
        Case{"gzip;q=0.5, one;q=0.501", "one"},
        Case{"one;q=0, *", "gzip"},
        Case{"*", "one"},
        Case{"gzip ; q=0.1", "gzip"},
        Case{"", ""},
        Case{"identity", ""},
        Case{"identity, gzip;q=0.5", ""},
        Case{"identity, *;q=0.5", ""},
        Case{"identity;q=0.5, gzip;q=0.5", "gzip"},
        Case{"identity;q=0, gzip;q=0.001", "gzip"},
        Case{"gzip;q=0", ""},
        Case{"gzip;q=0.000", ""},
        Case{"gzip;q=2", ""},
        Case{"gzip;q=0.5555", ""},
        Case{"gzip;q=x", ""},
        Case{"gzip;level=1", ""},
        Case{"gzipped", ""},
    };
    for (const Case& each : cases) {
        const std::string found = answer(text(), get(each.accepted));
        const std::size_t at = found.find("Content-Encoding: ");
        const std::string coding =
            at == std::string::npos ? "" : found.substr(at + 18, found.find("\r\n", at) - at - 18);
        EXPECT_EQ(coding, each.coding) << each.accepted;
        EXPECT_TRUE(found.contains("Vary: Accept-Encoding\r\n")) << each.accepted;
    }
}

TEST(Compression, WhatIsCompressedAlreadyIsLeftAlone) {
    for (const char* type :
         {"image/png", "application/zip", "application/octet-stream", "video/mp4", "font/woff2"}) {
        const std::string found = answer(text(type), get("gzip"));
        EXPECT_FALSE(found.contains("Content-Encoding")) << type;
        EXPECT_FALSE(found.contains("Vary")) << type;
        EXPECT_TRUE(found.contains("ETag: \"7\"\r\n")) << type;
    }
    for (const char* type : {"application/json", "Application/JSON; charset=utf-8", "image/svg+xml",
                             "application/problem+json", "text/css"}) {
        EXPECT_TRUE(answer(text(type), get("gzip")).contains("Content-Encoding: gzip")) << type;
    }
}

TEST(Compression, WhatMustNotChangeIsLeftAlone) {
    const auto with = [](const char* name, const char* value) {
        return [name, value](Request& request, Response& response) {
            text()(request, response);
            response.header(name, value);
        };
    };
    EXPECT_FALSE(answer(with("Cache-Control", "public, no-transform"), get("gzip"))
                     .contains("Content-Encoding"));
    const std::string coded = answer(with("Content-Encoding", "br"), get("gzip"));
    EXPECT_TRUE(coded.contains("Content-Encoding: br\r\n"));
    EXPECT_FALSE(coded.contains("gzip"));
    const std::string little = answer(text("text/plain", "little"), get("gzip"));
    EXPECT_FALSE(little.contains("Content-Encoding"));
    EXPECT_TRUE(little.contains("Vary: Accept-Encoding\r\n"));
    const auto part = [](Request& request, Response& response) -> Task<Result<>> {
        static constexpr std::string_view body = "a text of some size";
        co_return co_await http::send_content(request, response, {.content_type = "text/plain"},
                                              Bytes(body));
    };
    const std::string ranged = answer(part, get("gzip", "Range: bytes=0-11\r\n"));
    EXPECT_EQ(status_line(ranged), "HTTP/1.1 206 Partial Content");
    EXPECT_EQ(body_of(ranged), "a text of so");
    EXPECT_TRUE(body_of(answer(part, get("gzip"))).contains("[a text of some size]"));
}

TEST(Compression, VaryIsAddedToWhatTheHandlerSays) {
    const auto varying = [](const char* vary) {
        return [vary](Request& request, Response& response) {
            text()(request, response);
            response.header("Vary", vary);
        };
    };
    EXPECT_TRUE(answer(varying("Cookie"), get("gzip")).contains("Vary: Accept-Encoding\r\n"));
    const std::string known = answer(varying("Cookie, accept-encoding"), get("gzip"));
    EXPECT_FALSE(known.contains("Vary: Accept-Encoding"));
    EXPECT_FALSE(answer(varying("*"), get("gzip")).contains("Accept-Encoding"));
}

TEST(Compression, APartArrivesAsSoonAsItIsWritten) {
    http::Server server;
    sync::Event go_on;
    const auto parts = [&](Request& /*request*/, Response& response) -> Task<Result<>> {
        response.header("Content-Type", "text/event-stream");
        co_await unwrap(response.write_all(std::string_view("one")));
        co_await unwrap(go_on.wait());
        co_await unwrap(response.write_all(std::string_view("two")));
        co_return Result<>();
    };
    server.get("/", chain(compression(), parts));
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await stream.write_all(get("one")));
        const std::string begun = co_await read_until(stream, "[one]\r\n");
        EXPECT_TRUE(begun.contains("Transfer-Encoding: chunked\r\n"));
        EXPECT_FALSE(begun.contains("Content-Length"));
        go_on.set();
        EXPECT_EQ(expect(co_await read_all_text(stream)), "5\r\n[two]\r\n1\r\n.\r\n0\r\n\r\n");
    });
}

TEST(Compression, AnAnnouncedSizeStillHolds) {
    const auto writes = [](std::uint64_t announced) {
        return [announced](Request& /*request*/, Response& response) -> Task<Result<>> {
            response.header("Content-Type", "text/plain");
            response.content_length(announced);
            co_return co_await response.write_all(std::string_view("a text of some size"));
        };
    };
    EXPECT_TRUE(answer(writes(19), get("one")).ends_with("0\r\n\r\n"));
    EXPECT_FALSE(answer(writes(20), get("one")).ends_with("0\r\n\r\n"));
    EXPECT_EQ(status_line(answer(writes(18), get("one"))), "HTTP/1.1 500 Internal Server Error");
}

TEST(Compression, AFileIsCodedToo) {
    const TemporaryFolder folder;
    const std::string content(100'000, '#');
    folder.fill("file", content);
    const auto send = [&](Request& request, Response& response) -> Task<Result<>> {
        fs::File file = co_await unwrap(fs::File::open(folder.path("file")));
        co_return co_await http::send_content(
            request, response,
            {.size = content.size(), .content_type = "text/plain", .entity_tag = "\"f\""}, file);
    };
    const std::string found = answer(send, get("one"));
    EXPECT_TRUE(found.contains("ETag: W/\"f\"\r\n"));
    EXPECT_EQ(std::ranges::count(found, '#'), 100'000);
    EXPECT_TRUE(found.contains(".\r\n0\r\n\r\n"));
    const std::string plain = answer(send, get(""));
    EXPECT_TRUE(plain.contains("ETag: \"f\"\r\n"));
    EXPECT_TRUE(plain.contains("Content-Length: 100000\r\n"));
    EXPECT_EQ(body_of(plain), content);
}

TEST(Compression, AFileBehindAPartIsCodedToo) {
    const TemporaryFolder folder;
    folder.fill("file", "a file of some size");
    const auto send = [&](Request& /*request*/, Response& response) -> Task<Result<>> {
        fs::File file = co_await unwrap(fs::File::open(folder.path("file")));
        response.header("Content-Type", "text/plain");
        co_await unwrap(response.write_all(std::string_view("a longer text before it ")));
        co_return co_await response.send_file(file, 0, 19);
    };
    for (const char* const accepted : {"", "one"}) {
        const std::string found = answer(send, get(accepted));
        EXPECT_TRUE(found.contains("a file of some size")) << accepted;
        EXPECT_TRUE(found.ends_with("\r\n0\r\n\r\n")) << accepted;
    }
}

TEST(Compression, ALargeBodyIsCodedInParts) {
    const std::string content(1'000'000, '#');
    const std::string found = answer(text("text/plain", content), get("one"));
    EXPECT_TRUE(found.contains("Transfer-Encoding: chunked\r\n"));
    EXPECT_EQ(std::ranges::count(found, '#'), 1'000'000);
    EXPECT_EQ(std::ranges::count(found, '['), 16);
}

TEST(Compression, AWeakenedTagStillTellsThatNothingHasChanged) {
    http::Server server;
    server.get(
        "/", chain(compression(), http::EntityTags(), [](Request& /*request*/, Response& response) {
            response.header("Content-Type", "text/plain");
            response.body("a text of some size");
        }));
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        const std::string first = co_await exchange(endpoint, get("gzip"));
        const std::size_t at = first.find("ETag: ") + 6;
        const std::string tag = first.substr(at, first.find("\r\n", at) - at);
        EXPECT_TRUE(tag.starts_with("W/\""));
        const std::string again =
            co_await exchange(endpoint, get("gzip", "If-None-Match: " + tag + "\r\n"));
        EXPECT_EQ(status_line(again), "HTTP/1.1 304 Not Modified");
        EXPECT_FALSE(again.contains("Content-Encoding"));
    });
}

/// The fields that tell of the body.
std::string told_of_body(const std::string& answer) {
    std::string told;
    for (const char* name :
         {"Content-Encoding", "Content-Length", "ETag", "Vary", "Accept-Ranges"}) {
        const std::size_t at = answer.find("\r\n" + std::string(name) + ": ");
        if (at != std::string::npos) {
            told += answer.substr(at + 2, answer.find("\r\n", at + 2) - at);
        }
    }
    return told;
}

TEST(Compression, HeadTellsWhatGetWould) {
    const TemporaryFolder folder;
    const std::string content(1'000, '#');
    folder.fill("file", content);
    const auto file = [&](Request& request, Response& response) -> Task<Result<>> {
        fs::File opened = co_await unwrap(fs::File::open(folder.path("file")));
        co_return co_await http::send_content(
            request, response,
            {.size = content.size(), .content_type = "text/plain", .entity_tag = "\"f\""}, opened);
    };
    const auto bytes = [&](Request& request, Response& response) -> Task<Result<>> {
        co_return co_await http::send_content(request, response,
                                              {.content_type = "text/plain", .entity_tag = "\"b\""},
                                              Bytes(std::string_view(content)));
    };
    const auto parts = [](Request& /*request*/, Response& response) -> Task<Result<>> {
        response.header("Content-Type", "text/plain");
        co_return co_await response.write_all(std::string_view("a part"));
    };
    const auto check = [](const auto& handler) {
        for (const char* accepted : {"gzip", ""}) {
            const std::string of_get = told_of_body(answer(handler, get(accepted)));
            const std::string whole = answer(handler, get(accepted, "", "HEAD"));
            EXPECT_EQ(told_of_body(whole), of_get) << accepted;
            EXPECT_EQ(body_of(whole), "") << accepted;
            EXPECT_EQ(status_line(whole), "HTTP/1.1 200 OK");
        }
    };
    check(text());
    check(text("text/plain", "little"));
    check(text("text/plain", std::string(1'000'000, '#')));
    check(text("image/png"));
    check(file);
    check(bytes);
    check(parts);
    EXPECT_EQ(told_of_body(answer(text(), get("gzip", "", "HEAD"))),
              "Content-Encoding: gzip\r\nContent-Length: 22\r\nETag: W/\"7\"\r\n"
              "Vary: Accept-Encoding\r\n");
}

TEST(Compression, WhatHasNotChangedHasTheTagThatTheClientKnows) {
    const auto unchanged = [](Request& request, Response& response) -> Task<Result<>> {
        static constexpr std::string_view body = "a text of some size";
        co_return co_await http::send_content(
            request, response, {.content_type = "text/plain", .entity_tag = "\"7\""}, Bytes(body));
    };
    const std::string weak = answer(unchanged, get("gzip", "If-None-Match: \"x\", W/\"7\"\r\n"));
    EXPECT_EQ(status_line(weak), "HTTP/1.1 304 Not Modified");
    EXPECT_EQ(told_of_body(weak), "ETag: W/\"7\"\r\nVary: Accept-Encoding\r\n"
                                  "Accept-Ranges: bytes\r\n");
    const std::string strong = answer(unchanged, get("", "If-None-Match: \"7\"\r\n"));
    EXPECT_TRUE(strong.contains("ETag: \"7\"\r\n"));
}

TEST(Compression, WithoutACodingItIsRefused) {
    EXPECT_THROW(Compression({}), std::invalid_argument);
}

} // namespace
