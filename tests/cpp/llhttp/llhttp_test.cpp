// What the codec reads, llhttp reads alike. What the codec refuses, llhttp refuses too, or the
// codec is stricter on purpose.

#include <gtest/gtest.h>

#if __has_include(<llhttp.h>)

#include "llhttp/reading.hpp"

#include <array>
#include <cstddef>
#include <random>
#include <string>
#include <string_view>

namespace {

using namespace penstock::testing;

constexpr std::array directions = {Direction::requests, Direction::responses,
                                   Direction::responses_to_head, Direction::responses_to_connect};

struct Case {
    std::string_view text;
    std::size_t messages; // that both read
};

const std::array requests = {
    Case{"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n", 2},
    Case{"GET http://a.b:80/c?d HTTP/1.1\r\nHost: a.b:80\r\n\r\n", 1},
    Case{"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 1},
    Case{"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\nany bytes", 1},
    Case{"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81", 1},
    Case{"GET / HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 1},
    Case{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.0\r\n\r\n", 2},
    Case{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel", 0},
    Case{"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
         1},
    Case{"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.0\r\n\r\n", 2},
    Case{"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
         "5;a=b;c=\"d \\\" e\";f\r\nhello\r\n0A\r\n0123456789\r\n000\r\nT: u\r\nV:\r\n\r\n"
         "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
         2},
    Case{"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello0\r\n\r\n", 0},
    Case{"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n", 0},
    Case{"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n", 0},
    Case{"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
         "5;a=\"b\"c\r\nhello\r\n0\r\n\r\n",
         0},
    Case{"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
         "5; a\r\nhello\r\n0\r\n\r\n",
         0},
    Case{"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n", 0},
    Case{"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked,\r\n\r\n0\r\n\r\n", 0},
    Case{"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \r\nTransfer-Encoding: chunked\r\n\r\n"
         "0\r\n\r\n",
         0},
    Case{"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"
         "0\r\n\r\n",
         0},
    Case{"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 0},
    Case{"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello", 0},
    Case{"GET http://a\"b/ HTTP/1.1\r\nHost: a\r\n\r\n", 0},
    Case{"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n", 0},
    Case{"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1 \t \r\n\r\na", 1},
};

const std::array responses = {
    Case{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 404 Not Found\r\n"
         "Content-Length: 0\r\n\r\n",
         2},
    Case{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
         "3\r\nabc\r\n0\r\nX: y\r\n\r\n",
         2},
    Case{"HTTP/1.1 103 Early Hints\r\nContent-Length: 3\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"
         "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
         3},
    Case{"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\nHTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 2},
    Case{"HTTP/1.1 200 OK\r\nHost: a/b\r\nHost: c\r\nContent-Length: 0\r\n\r\n", 1},
    Case{"HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\nConnection: upgrade\r\n\r\nraw", 1},
    Case{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na", 1},
    Case{"HTTP/1.0 200 OK\r\n\r\nup to the end", 0},
    Case{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"
         "3\r\nabc\r\n0\r\n\r\n",
         0},
};

TEST(Llhttp, ReadsTheSameRequests) {
    for (const Case& each : requests) {
        EXPECT_EQ(unexplained_difference(Direction::requests, each.text), "") << each.text;
        EXPECT_EQ(read_by_llhttp(Direction::requests, each.text).messages.size(), each.messages)
            << each.text;
    }
}

TEST(Llhttp, ReadsTheSameResponses) {
    for (const Case& each : responses) {
        EXPECT_EQ(unexplained_difference(Direction::responses, each.text), "") << each.text;
        EXPECT_EQ(read_by_llhttp(Direction::responses, each.text).messages.size(), each.messages)
            << each.text;
        EXPECT_EQ(unexplained_difference(Direction::responses_to_head, each.text), "") << each.text;
        EXPECT_EQ(unexplained_difference(Direction::responses_to_connect, each.text), "")
            << each.text;
    }
}

// RFC 9110, 9.3.6: a client ignores both fields in a successful answer to CONNECT.
TEST(Llhttp, AnswerToConnectHasNoBodyWhateverItAnnounces) {
    constexpr std::string_view text =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
    EXPECT_EQ(unexplained_difference(Direction::responses_to_connect, text), "");
    const Reading reading = read_by_codec(Direction::responses_to_connect, text, text.size());
    EXPECT_EQ(reading.end, Reading::End::upgraded);
    ASSERT_EQ(reading.messages.size(), 1U);
    EXPECT_EQ(reading.messages[0].body, "");
}

/// Random changes to the cases, from this seed on. The parts in which the bytes arrive change
/// nothing.
TEST(Llhttp, ReadsTheSameAfterRandomChanges) {
    constexpr std::array<std::string_view, 32> pieces = {"\r",
                                                         "\n",
                                                         "\r\n",
                                                         "\r\n\r\n",
                                                         " ",
                                                         "\t",
                                                         ":",
                                                         ";",
                                                         "=",
                                                         "\"",
                                                         "\\",
                                                         ",",
                                                         "0",
                                                         "5",
                                                         "a",
                                                         "\x7f",
                                                         "\xe4",
                                                         "/",
                                                         "@",
                                                         "Host: b\r\n",
                                                         "Content-Length: 3\r\n",
                                                         "Content-Length: 0\r\n",
                                                         "Transfer-Encoding: chunked\r\n",
                                                         "Connection: close\r\n",
                                                         "Connection: keep-alive\r\n",
                                                         "HTTP/1.0",
                                                         "HTTP/1.2",
                                                         "101",
                                                         "204",
                                                         "HEAD",
                                                         "0\r\n\r\n",
                                                         "GET / HTTP/1.1\r\nHost: a\r\n\r\n"};
    std::mt19937 random(1); // NOLINT(bugprone-random-generator-seed): the same programs each time
    const auto below = [&random](std::size_t limit) { return random() % limit; };
    for (int round = 0; round < 20000; ++round) {
        const Direction direction = directions[below(directions.size())];
        std::string text(direction == Direction::requests
                             ? requests[below(requests.size())].text
                             : responses[below(responses.size())].text);
        for (std::size_t changes = 1 + below(3); changes != 0; --changes) {
            const std::size_t place = below(text.size() + 1);
            text.replace(place, below(3), pieces[below(pieces.size())]);
        }
        ASSERT_EQ(unexplained_difference(direction, text), "") << text;
        const Reading whole = read_by_codec(direction, text, text.size());
        ASSERT_EQ(read_by_codec(direction, text, 1 + below(16)).messages, whole.messages) << text;
    }
}

} // namespace

#else

TEST(Llhttp, IsAbsent) {
    GTEST_SKIP() << "llhttp's sources are not in build/conformance (scripts/setup test)";
}

#endif
