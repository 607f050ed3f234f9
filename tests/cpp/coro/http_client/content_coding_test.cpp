// Compressed bodies that are whole, cut off, damaged, or have something behind their end.

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

#include <penstock/http/client.hpp>

#include "coro/http_client/scripted_server.hpp"
#include "http/client/content_decoder.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::run;
using penstock::Task;
using penstock::http::Client;
using penstock::http::ClientError;
using penstock::http::ClientOptions;
using penstock::http::ClientResponse;
using penstock::http::Headers;
using penstock::http::detail::ContentDecoder;
using penstock::testing::expect;
using penstock::testing::ScriptedServer;
using penstock::testing::ServedConnection;
using penstock::testing::Watchdog;
using penstock::testing::with_server;

constexpr int gzip = 31;
constexpr int with_zlib_header = 15;
constexpr int bare = -15;

std::string compressed(std::string_view text, int window) {
    z_stream stream{};
    EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
    std::string made(deflateBound(&stream, text.size()) + 32, '\0');
    std::string input(text);
    stream.next_in = reinterpret_cast<Bytef*>(input.data());
    stream.avail_in = static_cast<uInt>(input.size());
    stream.next_out = reinterpret_cast<Bytef*>(made.data());
    stream.avail_out = static_cast<uInt>(made.size());
    EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
    made.resize(stream.total_out);
    deflateEnd(&stream);
    return made;
}

struct Coded {
    const char* name;
    std::string coding;
    std::string bytes;
    std::string text;
    /// Whether the format has a sum over its data, so that no changed byte passes.
    bool has_sum = true;
};

std::vector<Coded> coded_bodies() {
    std::string text;
    for (int number = 0; number < 40; ++number) {
        text += "sample " + std::to_string(number * number) + "\n";
    }
    const std::string zeros(300'000, '\0');
    const std::string half = text.substr(0, 100);
    const std::string rest = text.substr(100);
    return {
        {"gzip", "gzip", compressed(text, gzip), text},
        {"gzip of nothing", "gzip", compressed("", gzip), ""},
        {"gzip by its old name", "X-GZip", compressed(text, gzip), text},
        {"deflate", "deflate", compressed(text, with_zlib_header), text},
        {"bare deflate", "deflate", compressed(text, bare), text, false},
        {"two gzip members", "gzip", compressed(half, gzip) + compressed(rest, gzip), text},
        {"gzip over deflate", "deflate, gzip", compressed(compressed(text, with_zlib_header), gzip),
         text},
        {"a bomb in layers", "gzip, gzip", compressed(compressed(zeros, gzip), gzip), zeros},
        {"identity", "identity, gzip", compressed(text, gzip), text},
    };
}

struct Decoded {
    std::string text;
    std::string error;
};

/// Gives it `input` bytes at a time, and room for `output`.
Decoded decode(const std::string& coding, std::string_view bytes, std::size_t input,
               std::size_t output) {
    Headers headers;
    headers.add("Content-Encoding", coding);
    const auto decoder = ContentDecoder::make(headers);
    Decoded result;
    std::vector<std::byte> room(output);
    std::size_t given = 0;
    while (true) {
        const auto pending = std::as_bytes(std::span(bytes)).first(std::min(given, bytes.size()));
        const auto step = decoder->decode(penstock::Bytes(pending), room);
        bytes.remove_prefix(step.taken);
        given -= std::min(given, step.taken);
        result.text.append(reinterpret_cast<const char*>(room.data()), step.made);
        if (decoder->failed() || (step.made == 0 && step.taken == 0 && given >= bytes.size())) {
            break;
        }
        if (step.made == 0 && step.taken == 0) {
            given += input;
        }
    }
    decoder->end();
    result.error = decoder->error();
    EXPECT_EQ(decoder->failed(), !result.error.empty());
    return result;
}

TEST(ContentDecoder, DecodesPiecesOfAnySize) {
    for (const Coded& coded : coded_bodies()) {
        for (const std::size_t input : {1UZ, 7UZ, 100'000UZ}) {
            for (const std::size_t output : {1UZ, 100UZ, 1'000'000UZ}) {
                if (coded.text.size() > 100'000 && output == 1) {
                    continue; // takes its time
                }
                const Decoded decoded = decode(coded.coding, coded.bytes, input, output);
                EXPECT_EQ(decoded.error, "") << coded.name;
                EXPECT_TRUE(decoded.text == coded.text) << coded.name << " " << input;
            }
        }
    }
}

TEST(ContentDecoder, RefusesEveryCut) {
    for (const Coded& coded : coded_bodies()) {
        const std::size_t first_member = coded.name == std::string_view("two gzip members")
                                             ? compressed(coded.text.substr(0, 100), gzip).size()
                                             : 0;
        for (std::size_t size = 1; size < coded.bytes.size(); ++size) {
            if (size == first_member) {
                continue; // which is complete
            }
            const Decoded decoded =
                decode(coded.coding, std::string_view(coded.bytes).substr(0, size), 512, 4096);
            EXPECT_TRUE(decoded.error.ends_with("it ends before its own end"))
                << coded.name << " cut at " << size << ": " << decoded.error;
        }
        EXPECT_EQ(decode(coded.coding, "", 512, 4096).error, "") << coded.name;
    }
}

TEST(ContentDecoder, RefusesBytesBehindTheEnd) {
    for (const Coded& coded : coded_bodies()) {
        for (const char* behind : {"x", "\x1f", "\x1f\x8b"}) {
            EXPECT_NE(decode(coded.coding, coded.bytes + behind, 512, 4096).error, "")
                << coded.name;
        }
        EXPECT_NE(decode(coded.coding, coded.bytes + std::string(1, '\0'), 512, 4096).error, "")
            << coded.name;
    }
}

TEST(ContentDecoder, MakesNoOtherTextOfAChangedByte) {
    for (const Coded& coded : coded_bodies()) {
        for (std::size_t place = 0; coded.has_sum && place < coded.bytes.size(); ++place) {
            for (const int change : {0x01, 0x80, 0xff}) {
                std::string bytes = coded.bytes;
                bytes[place] = static_cast<char>(bytes[place] ^ change);
                const Decoded decoded = decode(coded.coding, bytes, 512, 4096);
                // The time in a header of gzip, for example, is not part of the text.
                EXPECT_TRUE(!decoded.error.empty() || decoded.text == coded.text)
                    << coded.name << " at " << place;
            }
        }
    }
}

TEST(ContentDecoder, NamesWhatItDoesNotKnow) {
    EXPECT_EQ(decode("br", "x", 1, 1).error, "Content-Encoding: br, was not asked for");
    EXPECT_EQ(decode("gzip, gzip, gzip, gzip, gzip", "x", 1, 1).error,
              "Content-Encoding: gzip, too many codings");
    EXPECT_EQ(ContentDecoder::make(Headers()), nullptr);
}

void with(const std::string& fields, const std::string& body,
          const std::function<Task<>(const ScriptedServer&)>& ask) {
    const Watchdog watchdog;
    run(with_server(
        [&](ServedConnection& connection) -> Task<> {
            if (const auto request = co_await connection.head()) {
                EXPECT_EQ(request->field("accept-encoding"), "gzip, deflate");
                (void)co_await connection.send("HTTP/1.1 200 OK\r\n" + fields + "\r\n" + body);
            }
        },
        ask));
}

TEST(HttpClientCodings, ACutBodyIsAnErrorWhateverItsFraming) {
    const std::string text(100'000, 'a');
    const std::string whole = compressed(text, gzip);
    const std::string cut = whole.substr(0, whole.size() - 5);
    const auto length = [](const std::string& body) {
        return "Content-Length: " + std::to_string(body.size()) + "\r\n";
    };
    const std::string coding = "Content-Encoding: gzip\r\n";
    for (const std::string& framing : {length(cut), std::string("Connection: close\r\n")}) {
        with(coding + framing, cut, [](const ScriptedServer& server) -> Task<> {
            Client client;
            const auto fetched = co_await client.get(server.url);
            EXPECT_EQ(fetched.error(), ClientError::undecodable_body);
            EXPECT_TRUE(fetched.error().message().contains("it ends before its own end"))
                << fetched.error().message();
            ClientResponse response = expect(co_await client.send({.url = server.url}));
            EXPECT_EQ((co_await response.text()).error(), ClientError::undecodable_body);
        });
    }
    with(coding + length(whole), whole, [&](const ScriptedServer& server) -> Task<> {
        Client client(ClientOptions{.whole_body = text.size()});
        EXPECT_TRUE(expect(co_await client.get(server.url)).body == text);
        Client smaller(ClientOptions{.whole_body = text.size() - 1});
        EXPECT_EQ((co_await smaller.get(server.url)).error(), ClientError::body_too_large);
    });
}

TEST(HttpClientCodings, ABodyLargerThanTheBufferPauses) {
    std::string text;
    for (int number = 0; text.size() < 2'000'000; ++number) {
        text += std::to_string(number * 2'654'435'761U) + ",";
    }
    const std::string body = compressed(text, gzip);
    with("Content-Encoding: gzip\r\nContent-Length: " + std::to_string(body.size()) + "\r\n", body,
         [&](const ScriptedServer& server) -> Task<> {
             for (const std::size_t whole : {text.size(), 2 * text.size()}) {
                 Client client(ClientOptions{.buffer = 1000, .whole_body = whole});
                 EXPECT_TRUE(expect(co_await client.get(server.url)).body == text);
             }
         });
}

} // namespace
