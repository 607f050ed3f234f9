#include <penstock/codec/http/request_parser.hpp>
#include <penstock/codec/http/response_parser.hpp>

#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace penstock::codec::http;
using Kind = BodyFraming::Kind;
using To = ResponseParser::To;

std::array<Field, 32> storage;

Error request_error(std::string_view text, const Limits& limits = {}) {
    RequestParser parser(storage, limits);
    switch (parser.parse(text)) {
    case Progress::failed:
        return parser.error();
    case Progress::incomplete:
        ADD_FAILURE() << "incomplete: " << text;
        break;
    case Progress::complete:
        break;
    }
    return Error::none;
}

Error response_error(std::string_view text, To request = To::other) {
    ResponseParser parser(storage);
    const Progress progress = parser.parse(text, request);
    EXPECT_NE(progress, Progress::incomplete) << text;
    return progress == Progress::failed ? parser.error() : Error::none;
}

std::string with_host(std::string_view lines) {
    return "GET / HTTP/1.1\r\nHost: a\r\n" + std::string(lines) + "\r\n";
}

TEST(HttpRequest, HasItsPartsAsViewsOfTheBuffer) {
    const std::string_view text = "POST /a?b=c HTTP/1.1\r\nHost: example.org:80\r\nX-Empty:\r\n"
                                  "X-Padded: \t two words\t \r\nContent-Length: 12\r\n\r\nrest";
    RequestParser parser(storage);
    ASSERT_EQ(parser.parse(text), Progress::complete);
    const RequestHead& head = parser.head();
    EXPECT_EQ(head.method, "POST");
    EXPECT_EQ(head.method.data(), text.data());
    EXPECT_EQ(head.target, "/a?b=c");
    EXPECT_EQ(head.minor_version, 1);
    EXPECT_EQ(head.host, "example.org:80");
    EXPECT_EQ(text.substr(head.size), "rest");
    ASSERT_EQ(head.fields.size(), 4U);
    EXPECT_EQ(head.fields.find("x-empty"), "");
    EXPECT_EQ(head.fields.find("X-PADDED"), "two words");
    EXPECT_EQ(head.fields.find("absent"), std::nullopt);
    EXPECT_EQ(head.body.kind, Kind::length);
    EXPECT_EQ(head.body.length, 12U);
    EXPECT_TRUE(head.keep_alive);
    EXPECT_FALSE(head.upgrade);
}

TEST(HttpRequest, IsTheSameInPartsOfEverySize) {
    const std::string text = "\r\nGET /path HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\nGET";
    for (std::size_t step = 1; step < text.size(); ++step) {
        RequestParser parser(storage);
        std::string received;
        Progress progress = Progress::incomplete;
        for (std::size_t at = 0; progress == Progress::incomplete; at += step) {
            ASSERT_LT(at, text.size());
            // The bytes move, as in a growing buffer.
            received = std::string(received) + text.substr(at, step);
            progress = parser.parse(received);
        }
        ASSERT_EQ(progress, Progress::complete) << step;
        EXPECT_EQ(parser.head().size, text.size() - 3);
        EXPECT_EQ(parser.head().target, "/path");
        EXPECT_EQ(parser.head().fields.size(), 2U);
    }
}

TEST(HttpRequest, NamesTheReasonOfARefusal) {
    const std::vector<std::pair<std::string, Error>> cases{
        {"GET / HTTP/1.1\nHost: a\r\n\r\n", Error::bare_line_feed},
        {"GET / HTTP/1.1\r\nHost: a\n\r\n", Error::bare_line_feed},
        {"GET / HTTP/1.1\r\nHost: a\r\n\n", Error::bare_line_feed},
        {"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Error::bare_line_feed},
        {with_host("A: b\rc\r\n"), Error::bare_carriage_return},
        {" GET / HTTP/1.1\r\n\r\n", Error::invalid_method},
        {"G(T / HTTP/1.1\r\n\r\n", Error::invalid_method},
        {"\x16\x03\x01", Error::invalid_method},
        {"GET  / HTTP/1.1\r\n\r\n", Error::invalid_target},
        {"GET path HTTP/1.1\r\n\r\n", Error::invalid_target},
        {"GET * HTTP/1.1\r\n\r\n", Error::invalid_target},
        {"GET /\xc3\xa4 HTTP/1.1\r\n\r\n", Error::invalid_target},
        {"GET /\tb HTTP/1.1\r\n\r\n", Error::invalid_target},
        {"GET http:///b HTTP/1.1\r\nHost: a\r\n\r\n", Error::invalid_target},
        {"GET http://a\"b/ HTTP/1.1\r\nHost: a\r\n\r\n", Error::invalid_target},
        {"GET http://user@a/ HTTP/1.1\r\nHost: a\r\n\r\n", Error::invalid_target},
        {"GET http://a#b HTTP/1.1\r\nHost: a\r\n\r\n", Error::invalid_target},
        {"GET 0http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", Error::invalid_target},
        {"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", Error::invalid_target},
        {"GET /a?#b HTTP/1.1\r\nHost: a\r\n\r\n", Error::invalid_target},
        {"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", Error::invalid_target},
        {"GET http:/ HTTP/1.1\r\nHost: a\r\n\r\n", Error::invalid_target},
        {"GET http HTTP/1.1\r\nHost: a\r\n\r\n", Error::invalid_target},
        {"CONNECT a: HTTP/1.1\r\nHost: a\r\n\r\n", Error::invalid_target},
        {"CONNECT / HTTP/1.1\r\n\r\n", Error::invalid_target},
        {"CONNECT host HTTP/1.1\r\n\r\n", Error::invalid_target},
        {"GET /\r\n\r\n", Error::invalid_target},
        {"GET / HTTP/1.1 \r\n\r\n", Error::invalid_version},
        {"GET / http/1.1\r\n\r\n", Error::invalid_version},
        {"GET / HTTP/1\r\n\r\n", Error::invalid_version},
        {"GET / HTTP/2.0\r\n\r\n", Error::unsupported_version},
        {"GET / HTTP/0.9\r\n\r\n", Error::unsupported_version},
        {"GET / HTTP/1.1\r\n Host: a\r\n\r\n", Error::folded_line},
        {with_host("A: b\r\n c\r\n"), Error::folded_line},
        {with_host("A : b\r\n"), Error::space_before_colon},
        {with_host("A\t: b\r\n"), Error::space_before_colon},
        {with_host(": b\r\n"), Error::invalid_field_name},
        {with_host("A\r\n"), Error::invalid_field_name},
        {with_host("A\xc3\xa4: b\r\n"), Error::invalid_field_name},
        {with_host(std::string_view("A: b\0c\r\n", 8)), Error::invalid_field_value},
        {with_host("A: b\x7f\r\n"), Error::invalid_field_value},
        {with_host("A: 0123456789\x01\r\n"), Error::invalid_field_value},
        {"GET / HTTP/1.1\r\n\r\n", Error::missing_host},
        {with_host("Host: a\r\n"), Error::invalid_host},
        {with_host("Content-Length: \r\n"), Error::invalid_content_length},
        {with_host("Content-Length: -1\r\n"), Error::invalid_content_length},
        {with_host("Content-Length: +1\r\n"), Error::invalid_content_length},
        {with_host("Content-Length: 1 1\r\n"), Error::invalid_content_length},
        {with_host("Content-Length: 0x1\r\n"), Error::invalid_content_length},
        {with_host("Content-Length: 5, 5\r\n"), Error::invalid_content_length},
        {with_host("Content-Length: 5\r\ncontent-length: 5\r\n"), Error::invalid_content_length},
        {with_host("Content-Length: 9223372036854775808\r\n"), Error::invalid_content_length},
        {with_host("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
         Error::conflicting_framing},
        {with_host("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n"),
         Error::conflicting_framing},
        {"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Error::unexpected_framing},
        {"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 1\r\n\r\n", Error::unexpected_body},
        {"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nTransfer-Encoding: chunked\r\n\r\n",
         Error::unexpected_body},
        // RFC 9112, 6.3: 400 where chunked is not the last one, whatever the others are.
        {with_host("Transfer-Encoding: chunked \t\r\n"), Error::invalid_transfer_coding},
        {with_host("Transfer-Encoding: ,\tchunked\r\n"), Error::invalid_transfer_coding},
        {with_host("Transfer-Encoding:\r\n"), Error::invalid_transfer_coding},
        {with_host("Transfer-Encoding: ,\r\n"), Error::invalid_transfer_coding},
        {with_host("Transfer-Encoding: gzip\r\n"), Error::invalid_transfer_coding},
        {with_host("Transfer-Encoding: chunked, gzip\r\n"), Error::invalid_transfer_coding},
        {with_host("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n"),
         Error::invalid_transfer_coding},
        {with_host("Transfer-Encoding: chunked, chunked\r\n"), Error::invalid_transfer_coding},
        {with_host("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
         Error::invalid_transfer_coding},
        {with_host("Transfer-Encoding: chunked, gzip, chunked\r\n"),
         Error::invalid_transfer_coding},
        {with_host("Transfer-Encoding: identity\r\n"), Error::invalid_transfer_coding},
        {with_host("Transfer-Encoding: xchunked\r\n"), Error::invalid_transfer_coding},
        {with_host("Transfer-Encoding: chunked;a=b\r\n"), Error::invalid_transfer_coding},
        {with_host("Transfer-Encoding: gzip, chunked\r\n"), Error::unsupported_transfer_coding},
        {with_host("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"),
         Error::unsupported_transfer_coding},
    };
    for (const auto& [text, error] : cases) {
        EXPECT_EQ(describe(request_error(text)), describe(error)) << text;
    }
}

TEST(HttpRequest, HasAHostWithAnOptionalPort) {
    const std::vector<std::pair<std::string, bool>> cases{
        {"a", true},
        {"a:80", true},
        {"a:", true}, // RFC 3986, 3.2.3
        {"a:65535", true},
        {"a..b", true}, // a reg-name, whatever DNS says
        {"a_b-c~.example", true},
        {"a%C3%A4", true},
        {"127.0.0.1:8080", true},
        {"[::1]", true},
        {"[2001:db8::1]:443", true},
        {"[::ffff:192.0.2.1]:", true},
        {"", false},
        {":80", false},
        {"a b", false},
        {"a/b", false},
        {"a@b", false},
        {"a:b", false},
        {"a:+1", false},
        {"a:65536", false},
        {"a:99999999999999999999", false},
        {"a:80:80", false},
        {"a%4", false},
        {"a%zz", false},
        {"::1", false},
        {"[]", false},
        {"[x]", false},
        {"[::1", false},
        {"[::1]x", false},
        {"[::1]:x", false},
        {"[::1%25eth0]", false},
        {"[127.0.0.1]", false},
        {"[" + std::string(60, ':') + "]", false},
    };
    for (const auto& [host, valid] : cases) {
        EXPECT_EQ(request_error("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n"),
                  valid ? Error::none : Error::invalid_host)
            << host;
        if (host.find_first_of(" /") == std::string::npos) { // which end it in a target
            EXPECT_EQ(request_error("GET http://" + host + "/ HTTP/1.1\r\nHost: a\r\n\r\n"),
                      valid ? Error::none : Error::invalid_target)
                << host;
        }
    }
}

TEST(HttpRequest, HasEmptyElementsInItsListOfTransferCodings) {
    for (const std::string_view lines :
         {"Transfer-Encoding: chunked,\r\n", "Transfer-Encoding: , chunked\r\n",
          "Transfer-Encoding: , ,Chunked , ,\r\n",
          "Transfer-Encoding: ,\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding:\r\n"}) {
        RequestParser parser(storage);
        const std::string text = with_host(lines);
        EXPECT_EQ(parser.parse(text), Progress::complete) << text;
        EXPECT_EQ(parser.head().body.kind, Kind::chunked) << text;
    }
}

TEST(HttpRequest, SaysWhatItExpects) {
    struct Case {
        std::string_view lines;
        bool to_continue;
        bool other;
    };
    for (const auto& [lines, to_continue, other] : std::initializer_list<Case>{
             {"", false, false},
             {"Expect:\r\n", false, false},
             {"Expect: 100-Continue\r\n", true, false},
             {"Expect: , 100-continue,\r\n", true, false},
             {"Expect: 100-continue, foo\r\n", true, true},
             {"Expect: a=\"100-continue, b\"\r\n", false, true},
             {"Expect: foo\r\nExpect: 100-continue\r\n", true, true},
             {"Expect: 100-continue;a=b\r\n", false, true},
         }) {
        for (const bool old : {false, true}) {
            RequestParser parser(storage);
            const std::string text = "GET / HTTP/1." + std::string(old ? "0" : "1") +
                                     "\r\nHost: a\r\n" + std::string(lines) + "\r\n";
            ASSERT_EQ(parser.parse(text), Progress::complete) << text;
            // HTTP/1.0 expects nothing (RFC 9110, 10.1.1).
            EXPECT_EQ(parser.head().expect_continue, to_continue && !old) << text;
            EXPECT_EQ(parser.head().expects_other, other && !old) << text;
        }
    }
}

TEST(HttpRequest, AcceptsEachFormOfTarget) {
    for (const std::string_view line :
         {"OPTIONS *", "GET http://a/b?c", "GET HTTPS://a", "CONNECT a:443", "CONNECT [::1]:443",
          "GET //", "PATCH /%00"}) {
        EXPECT_EQ(request_error(std::string(line) + " HTTP/1.1\r\nHost: a\r\n\r\n"), Error::none)
            << line;
    }
}

TEST(HttpRequest, AcceptsTheLargestLength) {
    RequestParser parser(storage);
    const std::string text = with_host("Content-Length: 9223372036854775807\r\n");
    ASSERT_EQ(parser.parse(text), Progress::complete);
    EXPECT_EQ(parser.head().body.length, (std::uint64_t{1} << 63) - 1);
}

TEST(HttpRequest, KeepsTheConnectionAsItsVersionSays) {
    const auto keeps = [](std::string_view version, std::string_view lines) {
        RequestParser parser(storage);
        const std::string text =
            "GET / " + std::string(version) + "\r\nHost: a\r\n" + std::string(lines) + "\r\n";
        EXPECT_EQ(parser.parse(text), Progress::complete) << text;
        return parser.head().keep_alive;
    };
    EXPECT_TRUE(keeps("HTTP/1.1", ""));
    EXPECT_FALSE(keeps("HTTP/1.1", "Connection: foo , CLOSE\r\n"));
    EXPECT_FALSE(keeps("HTTP/1.1", "Connection: keep-alive\r\nConnection: close\r\n"));
    EXPECT_FALSE(keeps("HTTP/1.0", ""));
    EXPECT_TRUE(keeps("HTTP/1.0", "Connection: Keep-Alive\r\n"));
    EXPECT_TRUE(keeps("HTTP/1.9", "Connection: closed\r\n"));
}

TEST(HttpRequest, UpgradesOnlyIfConnectionNamesIt) {
    const auto upgrades = [](std::string_view lines) {
        RequestParser parser(storage);
        const std::string text = with_host(lines);
        EXPECT_EQ(parser.parse(text), Progress::complete);
        return parser.head().upgrade;
    };
    EXPECT_TRUE(upgrades("Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"));
    EXPECT_FALSE(upgrades("Upgrade: websocket\r\n"));
    EXPECT_FALSE(upgrades("Connection: Upgrade\r\n"));
}

TEST(HttpRequest, IsRefusedBeyondALimitBeforeItEnds) {
    Limits limits{.line = 64, .head = 256, .chunk_extensions = 0};
    RequestParser parser(storage, limits);
    EXPECT_EQ(parser.parse("GET /" + std::string(80, 'a')), Progress::failed);
    EXPECT_EQ(parser.error(), Error::target_too_long);
    EXPECT_EQ(status_for(parser.error()), 414);
    EXPECT_EQ(parser.parse(with_host("A: " + std::string(80, 'a'))), Progress::failed);
    EXPECT_EQ(parser.error(), Error::line_too_long);
    EXPECT_EQ(status_for(parser.error()), 431);
    std::string text = "GET / HTTP/1.1\r\nHost: a\r\n";
    Progress progress = Progress::incomplete;
    while (progress == Progress::incomplete && text.size() < 1000) {
        text += "A: 0123456789012345678901234567890123456789\r\n";
        progress = parser.parse(text);
    }
    EXPECT_EQ(progress, Progress::failed);
    EXPECT_EQ(parser.error(), Error::head_too_large);
    std::array<Field, 2> two;
    RequestParser small(two);
    EXPECT_EQ(small.parse(with_host("A: b\r\n")), Progress::complete);
    EXPECT_EQ(small.parse(with_host("A: b\r\nC: d\r\n")), Progress::failed);
    EXPECT_EQ(small.error(), Error::too_many_fields);
    EXPECT_EQ(status_for(Error::too_many_fields), 431);
}

TEST(HttpRequest, FollowsAnotherInOneBuffer) {
    std::string_view text = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: b\r\n\r\n";
    RequestParser parser(storage);
    ASSERT_EQ(parser.parse(text), Progress::complete);
    EXPECT_EQ(parser.head().target, "/1");
    text.remove_prefix(parser.head().size);
    ASSERT_EQ(parser.parse(text), Progress::complete);
    EXPECT_EQ(parser.head().target, "/2");
    text.remove_prefix(parser.head().size);
    EXPECT_TRUE(text.empty());
}

TEST(HttpResponse, HasStatusAndReason) {
    ResponseParser parser(storage);
    ASSERT_EQ(parser.parse("HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\n"),
              Progress::complete);
    EXPECT_EQ(parser.head().status, 404);
    EXPECT_EQ(parser.head().reason, "Not Found");
    EXPECT_EQ(parser.head().body.length, 3U);
    ASSERT_EQ(parser.parse("HTTP/1.0 200 \r\n\r\n"), Progress::complete);
    EXPECT_EQ(parser.head().reason, "");
    EXPECT_EQ(parser.head().body.kind, Kind::until_close);
    EXPECT_FALSE(parser.head().keep_alive);
    ASSERT_EQ(parser.parse("HTTP/1.1 200\r\nTransfer-Encoding: Chunked\r\n\r\n"),
              Progress::complete);
    EXPECT_EQ(parser.head().body.kind, Kind::chunked);
    EXPECT_TRUE(parser.head().keep_alive);
}

TEST(HttpResponse, HasNoBodyWhereTheRequestOrTheStatusForbidsOne) {
    ResponseParser parser(storage);
    const auto kind = [&](std::string_view text, To request) {
        EXPECT_EQ(parser.parse(text, request), Progress::complete) << text;
        return parser.head().body.kind;
    };
    EXPECT_EQ(kind("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", To::head), Kind::none);
    EXPECT_EQ(kind("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", To::head), Kind::none);
    EXPECT_EQ(kind("HTTP/1.1 204 No Content\r\n\r\n", To::other), Kind::none);
    EXPECT_EQ(kind("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", To::other),
              Kind::none);
    EXPECT_EQ(kind("HTTP/1.1 100 Continue\r\n\r\n", To::other), Kind::none);
    EXPECT_FALSE(parser.head().upgrade);
    EXPECT_EQ(kind("HTTP/1.1 101 Switching Protocols\r\n\r\n", To::other), Kind::none);
    EXPECT_TRUE(parser.head().upgrade);
    EXPECT_EQ(kind("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", To::connect), Kind::none);
    EXPECT_TRUE(parser.head().upgrade);
    // RFC 9110, 9.3.6: both fields are ignored there.
    EXPECT_EQ(kind("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
                   To::connect),
              Kind::none);
    EXPECT_EQ(kind("HTTP/1.1 407 No\r\nContent-Length: 3\r\n\r\n", To::connect), Kind::length);
}

TEST(HttpResponse, MayHaveAnyHost) {
    EXPECT_EQ(response_error("HTTP/1.1 200 OK\r\nHost: a/b\r\nHost: c\r\n\r\n"), Error::none);
}

TEST(HttpResponse, NamesTheReasonOfARefusal) {
    const std::vector<std::pair<std::string_view, Error>> cases{
        {"HTTP/1.1 20 OK\r\n\r\n", Error::invalid_status},
        {"HTTP/1.1 099 OK\r\n\r\n", Error::invalid_status},
        {"HTTP/1.1 2000 OK\r\n\r\n", Error::invalid_status},
        {"HTTP/1.1  200 OK\r\n\r\n", Error::invalid_status},
        {"HTTP/1.1 200 O\x01K\r\n\r\n", Error::invalid_reason},
        {"HTTP/1.1 200 OK\n\r\n", Error::bare_line_feed},
        {"\r\nHTTP/1.1 200 OK\r\n\r\n", Error::invalid_version},
        {"ICY 200 OK\r\n\r\n", Error::invalid_version},
        {"HTTP/2.0 200 OK\r\n\r\n", Error::unsupported_version},
        {"HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n", Error::unexpected_framing},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
         Error::conflicting_framing},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
         Error::invalid_transfer_coding},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
         Error::unsupported_transfer_coding},
    };
    for (const auto& [text, error] : cases) {
        EXPECT_EQ(describe(response_error(text)), describe(error)) << text;
    }
}

} // namespace
