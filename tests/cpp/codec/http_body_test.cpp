#include <penstock/codec/http/body_decoder.hpp>
#include <penstock/codec/http/head_writer.hpp>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace penstock::codec::http;
using Kind = BodyFraming::Kind;
using PartKind = BodyDecoder::Part::Kind;

struct Decoded {
    PartKind end = PartKind::incomplete;
    Error error = Error::none;
    std::string data;
    std::string left;
    std::vector<std::string> trailers;
};

/// Presents `text` to a decoder in parts of `step` bytes.
Decoded decode(const BodyFraming& framing, std::string_view text, std::size_t step,
               const Limits& limits = {}) {
    BodyDecoder decoder(framing, limits);
    Decoded decoded;
    std::string buffer;
    while (decoded.end == PartKind::incomplete && !text.empty()) {
        buffer += text.substr(0, step);
        text.remove_prefix(std::min(step, text.size()));
        std::string_view input = buffer;
        for (;;) {
            const BodyDecoder::Part part = decoder.next(input);
            if (part.kind != PartKind::data) {
                decoded.end = part.kind;
                break;
            }
            EXPECT_FALSE(part.data.empty());
            decoded.data += part.data;
        }
        for (const Field& field : decoder.trailers()) {
            decoded.trailers.push_back(std::string(field.name) + "=" + std::string(field.value));
        }
        buffer = std::string(input);
    }
    decoded.error = decoder.error();
    decoded.left = buffer + std::string(text);
    return decoded;
}

Error chunked_error(std::string_view text, const Limits& limits = {}) {
    const Error whole = decode({Kind::chunked, 0}, text, text.size(), limits).error;
    EXPECT_EQ(decode({Kind::chunked, 0}, text, 1, limits).error, whole) << text;
    return whole;
}

TEST(HttpBody, OfALengthLeavesWhatFollows) {
    for (std::size_t step = 1; step < 9; ++step) {
        const Decoded decoded = decode({Kind::length, 5}, "hellonext", step);
        EXPECT_EQ(decoded.end, PartKind::end);
        EXPECT_EQ(decoded.data, "hello");
        EXPECT_EQ(decoded.left, "next");
    }
}

TEST(HttpBody, ThatIsAbsentHasEndedBeforeAnyInput) {
    BodyDecoder decoder;
    std::string_view input = "next";
    EXPECT_EQ(decoder.next(input).kind, PartKind::end);
    EXPECT_EQ(input, "next");
    EXPECT_TRUE(decoder.ended());
}

TEST(HttpBody, InChunksIsTheSameInPartsOfEverySize) {
    const std::string_view text =
        "5;name=\"quoted \\\" ; text\";flag\r\nhello\r\n0A\r\n0123456789\r\n"
        "000\r\nX-Sum: 1\r\nX-Other:\r\n\r\nnext";
    for (std::size_t step = 1; step <= text.size(); ++step) {
        const Decoded decoded = decode({Kind::chunked, 0}, text, step);
        EXPECT_EQ(decoded.end, PartKind::end) << step;
        EXPECT_EQ(decoded.data, "hello0123456789");
        EXPECT_EQ(decoded.left, "next");
        EXPECT_EQ(decoded.trailers, (std::vector<std::string>{"X-Sum=1", "X-Other="}));
    }
}

TEST(HttpBody, InChunksNamesTheReasonOfARefusal) {
    EXPECT_EQ(chunked_error("g\r\n"), Error::invalid_chunk_size);
    EXPECT_EQ(chunked_error("\r\n"), Error::invalid_chunk_size);
    EXPECT_EQ(chunked_error("-1\r\n"), Error::invalid_chunk_size);
    EXPECT_EQ(chunked_error("0x5\r\n"), Error::invalid_chunk_size);
    EXPECT_EQ(chunked_error("5 \r\n"), Error::invalid_chunk_size);
    EXPECT_EQ(chunked_error("8000000000000000\r\n"), Error::invalid_chunk_size);
    EXPECT_EQ(chunked_error("10000000000000005\r\n"), Error::invalid_chunk_size);
    EXPECT_EQ(chunked_error("5\n"), Error::bare_line_feed);
    EXPECT_EQ(chunked_error("5\rx"), Error::bare_carriage_return);
    EXPECT_EQ(chunked_error("5;a\n"), Error::bare_line_feed);
    EXPECT_EQ(chunked_error("5;a\x01\r\n"), Error::invalid_chunk_extension);
    for (const std::string_view extension :
         {"", ";", "=b", "a=", "a;", "a=(b)", "a b", " a", "a =b", "a\"b\"", "a=b\"c\"", "a=\"b\"c",
          "a=\"b", "a=b=c", "a=\"b\"=c"}) {
        const std::string line = "5;" + std::string(extension) + "\r\n";
        EXPECT_EQ(chunked_error(line), Error::invalid_chunk_extension) << line;
    }
    EXPECT_EQ(chunked_error("1\r\nab\r\n"), Error::invalid_chunk_end);
    EXPECT_EQ(chunked_error("1\r\na\n"), Error::invalid_chunk_end);
    EXPECT_EQ(chunked_error("1\r\na\r0"), Error::invalid_chunk_end);
    EXPECT_EQ(chunked_error("0\r\nA b\r\n\r\n"), Error::space_before_colon);
    EXPECT_EQ(chunked_error("0\r\nA: b\n\r\n"), Error::bare_line_feed);
    EXPECT_EQ(chunked_error("0\r\nContent-Length: 5\r\n\r\n"), Error::invalid_trailer);
    EXPECT_EQ(chunked_error("0\r\nTransfer-Encoding: chunked\r\n\r\n"), Error::invalid_trailer);
}

TEST(HttpBody, InChunksHasALimitOnExtensions) {
    const Limits limits{.chunk_extensions = 20};
    EXPECT_EQ(chunked_error("1;0123456789\r\na\r\n0\r\n\r\n", limits), Error::none);
    // The limit is one for all chunks.
    EXPECT_EQ(chunked_error("1;0123456789\r\na\r\n1;0123456789\r\na\r\n0\r\n\r\n", limits),
              Error::invalid_chunk_extension);
}

TEST(HttpBody, UntilCloseEndsOnlyThere) {
    BodyDecoder decoder({Kind::until_close, 0});
    std::string_view input = "data";
    EXPECT_EQ(decoder.next(input).data, "data");
    EXPECT_EQ(decoder.next(input).kind, PartKind::incomplete);
    EXPECT_FALSE(decoder.ended());
    EXPECT_TRUE(decoder.finish());
    EXPECT_TRUE(decoder.ended());
}

TEST(HttpBody, ThatIsCutOffIsNotComplete) {
    BodyDecoder decoder({Kind::length, 5});
    std::string_view input = "1234";
    (void)decoder.next(input);
    EXPECT_FALSE(decoder.finish());
}

TEST(HttpHeadWriter, WritesWhatTheParserReads) {
    std::array<char, 256> buffer;
    HeadWriter head(buffer);
    head.status(200).field("Server", "penstock").content_length(42).chunked().end();
    EXPECT_FALSE(head.failed());
    EXPECT_EQ(head.text(), "HTTP/1.1 200 OK\r\nServer: penstock\r\nContent-Length: 42\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n");
    HeadWriter request(buffer);
    request.request("GET", "/a").field("Host", "b").end();
    EXPECT_EQ(request.text(), "GET /a HTTP/1.1\r\nHost: b\r\n\r\n");
    EXPECT_EQ(ChunkHead(0xabc).text(), "abc\r\n");
    EXPECT_EQ(ChunkHead(~std::uint64_t{0}).text(), "ffffffffffffffff\r\n");
}

TEST(HttpHeadWriter, RefusesWhatWouldBecomeAnotherLine) {
    std::array<char, 256> buffer;
    EXPECT_TRUE(HeadWriter(buffer).field("A", "b\r\nC: d").failed());
    EXPECT_TRUE(HeadWriter(buffer).field("A", std::string_view("\0", 1)).failed());
    EXPECT_TRUE(HeadWriter(buffer).field("A:", "b").failed());
    EXPECT_TRUE(HeadWriter(buffer).field("", "b").failed());
    EXPECT_TRUE(HeadWriter(buffer).request("GET", "/a b").failed());
    EXPECT_TRUE(HeadWriter(buffer).request("GET", "").failed());
    EXPECT_TRUE(HeadWriter(buffer).request("G T", "/").failed());
    EXPECT_TRUE(HeadWriter(buffer).status(200, "a\nb").failed());
    EXPECT_TRUE(HeadWriter(buffer).status(20).failed());
    EXPECT_FALSE(HeadWriter(buffer).field("A", "\xc3\xa4\tb").failed());
}

TEST(HttpHeadWriter, NeedsALargerBufferAtItsEnd) {
    std::array<char, 20> buffer;
    HeadWriter head(buffer);
    head.status(200).field("A", "b").end();
    EXPECT_TRUE(head.overflowed());
    EXPECT_EQ(head.text(), "HTTP/1.1 200 OK\r\nA: ");
}

} // namespace
