#include <penstock/codec/websocket/deflate.hpp>
#include <penstock/codec/websocket/masking.hpp>
#include <penstock/codec/websocket/message_decoder.hpp>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace penstock::codec;
using namespace penstock::codec::websocket;
using Outcome = MessageInflater::Outcome;

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string compress(Deflater& deflater, std::string_view text) {
    ByteBuffer buffer;
    deflater.deflate(bytes_of(text), true, buffer);
    return text_of(buffer.bytes());
}

std::string decompress(Inflater& inflater, std::string_view data, std::uint64_t limit = 1 << 24) {
    ByteBuffer buffer;
    EXPECT_EQ(inflater.inflate(bytes_of(data), true, buffer, limit), Outcome::done);
    return text_of(buffer.bytes());
}

TEST(WebSocketDeflate, HasTheExamplesOfTheStandard) {
    // RFC 7692, 7.2.3.
    Deflater deflater(15, false);
    EXPECT_EQ(compress(deflater, "Hello"), "\xf2\x48\xcd\xc9\xc9\x07" + std::string(1, '\0'));
    EXPECT_EQ(compress(deflater, "Hello"), "\xf2" + std::string("\0\x11\0\0", 4));
    EXPECT_EQ(compress(deflater, ""), std::string(1, '\0'));
    Inflater inflater(15, false);
    EXPECT_EQ(decompress(inflater, "\xf2\x48\xcd\xc9\xc9\x07" + std::string(1, '\0')), "Hello");
    EXPECT_EQ(decompress(inflater, "\xf2" + std::string("\0\x11\0\0", 4)), "Hello");
    // A block without compression, a final block, two blocks.
    EXPECT_EQ(decompress(inflater, std::string("\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00", 11)),
              "Hello");
    EXPECT_EQ(decompress(inflater, std::string("\xf3\x48\xcd\xc9\xc9\x07\x00\x00", 8)), "Hello");
    EXPECT_EQ(decompress(inflater,
                         std::string("\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00", 13)),
              "Hello");
    EXPECT_EQ(decompress(inflater, std::string(1, '\0')), "");
    // The window outlives the final block.
    EXPECT_EQ(decompress(inflater, "\xf2" + std::string("\0\x11\0\0", 4)), "Hello");
}

TEST(WebSocketDeflate, RestoresMessagesForAllParameters) {
    std::mt19937 random(1);
    for (const bool takeover : {true, false}) {
        for (int bits = 8; bits <= 15; ++bits) {
            Deflater deflater(bits, !takeover, {.level = 1 + bits % 9, .memory_level = bits - 6});
            Inflater inflater(bits, !takeover);
            std::string earlier;
            for (int round = 0; round < 40; ++round) {
                std::string text;
                const std::size_t size = random() % (round % 8 == 0 ? 100'000 : 600);
                while (text.size() < size) {
                    if (random() % 3 == 0 && !earlier.empty()) {
                        text += earlier.substr(random() % earlier.size(), random() % 300);
                    }
                    text.push_back(static_cast<char>(random() % 7 == 0 ? random() : 'a'));
                }
                ASSERT_EQ(decompress(inflater, compress(deflater, text)), text);
                earlier = text;
            }
        }
    }
}

TEST(WebSocketDeflate, InPartsIsOneMessage) {
    Deflater deflater(15, false);
    Inflater inflater(15, false);
    for (int round = 0; round < 3; ++round) {
        ByteBuffer compressed;
        deflater.deflate({}, false, compressed);
        deflater.deflate(bytes_of("one "), false, compressed);
        deflater.deflate(bytes_of("two"), false, compressed);
        deflater.deflate({}, true, compressed);
        ByteBuffer restored;
        for (std::size_t i = 0; i < compressed.size(); ++i) {
            ASSERT_EQ(inflater.inflate(compressed.bytes().subspan(i, 1), i + 1 == compressed.size(),
                                       restored, 100),
                      Outcome::done);
        }
        EXPECT_EQ(text_of(restored.bytes()), "one two");
    }
}

TEST(WebSocketDeflate, OfEmptyPartsIsAnEmptyMessage) {
    Deflater deflater(15, false);
    for (int round = 0; round < 3; ++round) {
        ByteBuffer compressed;
        deflater.deflate({}, false, compressed);
        deflater.deflate({}, true, compressed);
        EXPECT_EQ(text_of(compressed.bytes()), std::string(1, '\0'));
    }
}

TEST(WebSocketDeflate, StopsABombAtTheLimit) {
    Deflater deflater(15, false);
    const std::string bomb = compress(deflater, std::string(8'000'000, 'a'));
    EXPECT_LT(bomb.size(), 20'000U);
    Inflater inflater(15, false);
    ByteBuffer output;
    EXPECT_EQ(inflater.inflate(bytes_of(bomb), true, output, 1 << 20), Outcome::too_large);
    EXPECT_LE(output.capacity(), std::size_t{4} << 20);
    Deflater exact(15, false);
    const std::string thousand = compress(exact, std::string(1000, 'a'));
    Inflater first(15, false);
    EXPECT_EQ(decompress(first, thousand, 1000), std::string(1000, 'a'));
    Inflater second(15, false);
    ByteBuffer cut;
    EXPECT_EQ(second.inflate(bytes_of(thousand), true, cut, 999), Outcome::too_large);
}

TEST(WebSocketDeflate, KeepsItsWindowBehindManyFinalBlocks) {
    std::mt19937 random(2);
    std::string noise(32'768, ' ');
    for (char& byte : noise) {
        byte = static_cast<char>(random());
    }
    Deflater deflater(15, false);
    Inflater inflater(15, false);
    EXPECT_EQ(decompress(inflater, compress(deflater, noise)), noise);
    // Sixteen million: a peer that sends many must not get much work for each.
    std::string blocks;
    for (int i = 0; i < 16'000'000; ++i) {
        blocks.append("\3\0", 2);
    }
    EXPECT_EQ(decompress(inflater, blocks + '\0'), "");
    // As far back as zlib refers.
    const std::string end = noise.substr(noise.size() - 32'000);
    const std::string again = compress(deflater, end);
    EXPECT_LT(again.size(), 1000U);
    EXPECT_EQ(decompress(inflater, again), end);
}

TEST(WebSocketDeflate, RefusesWhatIsNoDeflateData) {
    for (const std::string_view data : {std::string_view("\xff\xff\xff"), std::string_view("\x07"),
                                        std::string_view("\x00\x09\x00\xf6\xff\x48", 6)}) {
        Inflater inflater(15, false);
        ByteBuffer output;
        EXPECT_EQ(inflater.inflate(bytes_of(data), true, output, 1000), Outcome::invalid)
            << data.size();
    }
}

constexpr MaskKey key{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};

std::string frame(Opcode opcode, std::string payload, FrameHeader::Options options) {
    const FrameHeader header(opcode, payload.size(), key, options);
    apply_mask(std::as_writable_bytes(std::span(payload)), key);
    return text_of(header.bytes()) + payload;
}

TEST(WebSocketDeflate, IsUndoneByTheMessageDecoder) {
    Deflater deflater(15, false);
    const std::string text(3000, 'x');
    const std::string compressed = compress(deflater, text);
    const std::string wire =
        frame(Opcode::text, compressed.substr(0, 5), {.final = false, .compressed = true}) +
        frame(Opcode::ping, "p", {}) + frame(Opcode::continuation, compressed.substr(5), {}) +
        frame(Opcode::text, "plain", {}) +
        frame(Opcode::text, compress(deflater, "\xff"), {.compressed = true});
    for (std::size_t step = 1; step < 40; ++step) {
        Inflater inflater(15, false);
        MessageDecoder decoder(Role::server, 1 << 20, &inflater);
        std::vector<std::string> events;
        std::string received;
        for (std::size_t at = 0; at < wire.size() && decoder.failure().code == 0; at += step) {
            received = wire.substr(at, step);
            std::span<std::byte> input = std::as_writable_bytes(std::span(received));
            for (auto event = decoder.next(input); event.kind != MessageDecoder::Kind::incomplete;
                 event = decoder.next(input)) {
                if (event.kind == MessageDecoder::Kind::failed) {
                    events.push_back("failed " + std::to_string(decoder.failure().code));
                    break;
                }
                events.push_back(text_of(event.payload));
            }
        }
        ASSERT_EQ(events, (std::vector<std::string>{"p", text, "plain", "failed 1007"})) << step;
    }
}

TEST(WebSocketDeflate, IsRefusedWhereItWasNotNegotiated) {
    std::string wire = frame(Opcode::text, "x", {.compressed = true});
    MessageDecoder decoder(Role::server);
    std::span<std::byte> input = std::as_writable_bytes(std::span(wire));
    EXPECT_EQ(decoder.next(input).kind, MessageDecoder::Kind::failed);
    EXPECT_EQ(decoder.failure().code, close_code::protocol_error);
}

/// A text in two fragments of a server, compressed or not.
std::string two_fragments(std::string_view text, bool compressed) {
    Deflater deflater(15, false);
    const std::string data = compressed ? compress(deflater, text) : std::string(text);
    const std::string_view first = std::string_view(data).substr(0, data.size() / 2);
    const std::string_view second = std::string_view(data).substr(first.size());
    return std::string(1, compressed ? '\x41' : '\x01') + static_cast<char>(first.size()) +
           std::string(first) + '\x80' + static_cast<char>(second.size()) + std::string(second);
}

TEST(WebSocketMessage, GoesOverToPartsAtEveryByte) {
    using Kind = MessageDecoder::Kind;
    const std::string text = "a text with \xc3\xa4 in its middle, and an end";
    for (const bool compressed : {false, true}) {
        const std::string frames = two_fragments(text, compressed);
        for (std::size_t split = 0; split < frames.size(); ++split) {
            Inflater inflater(15, false);
            MessageDecoder decoder(Role::client, 1 << 20, compressed ? &inflater : nullptr);
            std::string before = frames.substr(0, split);
            std::span<std::byte> input = std::as_writable_bytes(std::span(before));
            EXPECT_EQ(decoder.next(input).kind, Kind::incomplete);
            std::string received;
            int firsts = 0;
            bool ended = false;
            const auto take = [&](const MessageDecoder::Event& event) {
                EXPECT_EQ(event.kind, Kind::text);
                received += text_of(event.payload);
                firsts += event.first ? 1 : 0;
                ended = event.last;
            };
            if (decoder.inside_whole()) {
                const MessageDecoder::Event event = decoder.part_so_far();
                if (event.kind != Kind::incomplete) {
                    take(event);
                }
                EXPECT_FALSE(decoder.inside_whole());
                EXPECT_TRUE(decoder.inside_parts());
            }
            std::string after = frames.substr(split);
            input = std::as_writable_bytes(std::span(after));
            while (!ended && !input.empty()) {
                if (const auto event = decoder.next_part(input); event.kind != Kind::incomplete) {
                    take(event);
                }
            }
            EXPECT_EQ(received, text) << split;
            EXPECT_EQ(firsts, 1) << split;
            EXPECT_TRUE(ended) << split;
        }
    }
}

} // namespace
