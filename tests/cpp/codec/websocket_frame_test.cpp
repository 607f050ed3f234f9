#include <penstock/codec/websocket/frame_decoder.hpp>
#include <penstock/codec/websocket/masking.hpp>
#include <penstock/codec/websocket/message_decoder.hpp>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace penstock::codec::websocket;
using Kind = MessageDecoder::Kind;

constexpr MaskKey key{std::byte{0x12}, std::byte{0x34}, std::byte{0x56}, std::byte{0x78}};

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

/// A frame as a client or as a server sends it.
std::string frame(Opcode opcode, std::string_view payload, FrameHeader::Options options = {},
                  bool masked = true) {
    if (!masked) {
        return text_of(FrameHeader(opcode, payload.size(), options).bytes()) + std::string(payload);
    }
    std::string hidden(payload);
    apply_mask(std::as_writable_bytes(std::span(hidden)), key);
    return text_of(FrameHeader(opcode, payload.size(), key, options).bytes()) + hidden;
}

std::string part(Opcode opcode, std::string_view payload) {
    return frame(opcode, payload, {.final = false});
}

std::string raw(std::initializer_list<int> bytes) {
    std::string text;
    for (const int byte : bytes) {
        text.push_back(static_cast<char>(byte));
    }
    return text;
}

/// What a decoder makes of bytes that arrive in parts of `step`, one word for each event.
std::vector<std::string> decode(std::string_view wire, std::size_t step, Role role = Role::server,
                                std::uint64_t maximum = 1 << 20) {
    MessageDecoder decoder(role, maximum);
    std::vector<std::string> events;
    for (; !wire.empty(); wire.remove_prefix(std::min(step, wire.size()))) {
        std::string received(wire.substr(0, step));
        std::span<std::byte> input = std::as_writable_bytes(std::span(received));
        for (;;) {
            const MessageDecoder::Event event = decoder.next(input);
            if (event.kind == Kind::incomplete) {
                EXPECT_TRUE(input.empty());
                break;
            }
            const std::string payload = text_of(event.payload);
            switch (event.kind) {
            case Kind::text:
                events.push_back("text " + payload);
                EXPECT_EQ(event.ascii,
                          std::ranges::none_of(payload, [](char c) { return (c & 0x80) != 0; }));
                break;
            case Kind::binary:
                events.push_back("binary " + payload);
                break;
            case Kind::ping:
                events.push_back("ping " + payload);
                break;
            case Kind::pong:
                events.push_back("pong " + payload);
                break;
            case Kind::close:
                events.push_back("close " + std::to_string(event.code) + " " + payload);
                break;
            default:
                events.push_back("failed " + std::to_string(decoder.failure().code));
                return events;
            }
        }
    }
    return events;
}

using Events = std::vector<std::string>;

void expect_in_any_parts(const std::string& wire, const Events& expected,
                         Role role = Role::server) {
    for (std::size_t step = 1; step <= std::min<std::size_t>(wire.size(), 300); ++step) {
        ASSERT_EQ(decode(wire, step, role), expected) << "in parts of " << step;
    }
    EXPECT_EQ(decode(wire, wire.size(), role), expected);
}

TEST(WebSocketFrames, AreTheSameInPartsOfEverySize) {
    const std::string large(70'000, 'x');
    const std::string medium(200, 'm');
    expect_in_any_parts(frame(Opcode::text, "hello") + frame(Opcode::binary, medium) +
                            frame(Opcode::text, "") + frame(Opcode::ping, "p") +
                            frame(Opcode::close, raw({0x03, 0xe8}) + "bye"),
                        {"text hello", "binary " + medium, "text ", "ping p", "close 1000 bye"});
    EXPECT_EQ(decode(frame(Opcode::binary, large), 4096), Events{"binary " + large});
    EXPECT_EQ(decode(frame(Opcode::binary, large), 80'000), Events{"binary " + large});
}

TEST(WebSocketFrames, OfAServerAreNotMasked) {
    expect_in_any_parts(frame(Opcode::text, "hello", {}, false), {"text hello"}, Role::client);
    EXPECT_EQ(decode(frame(Opcode::text, "hello", {}, true), 99, Role::client),
              Events{"failed 1002"});
    EXPECT_EQ(decode(frame(Opcode::text, "hello", {}, false), 99, Role::server),
              Events{"failed 1002"});
}

TEST(WebSocketFrames, OfControlComeBetweenFragments) {
    expect_in_any_parts(part(Opcode::text, "one ") + frame(Opcode::ping, "a") +
                            part(Opcode::continuation, "") + frame(Opcode::pong, "b") +
                            frame(Opcode::continuation, "two"),
                        {"ping a", "pong b", "text one two"});
}

TEST(WebSocketFrames, AgainstTheProtocolAreRefused) {
    const Events refused{"failed 1002"};
    const auto bits = [](int first) { return raw({first, 0x80, 0, 0, 0, 0}); };
    for (const int first : {0xc1, 0xa1, 0x91, 0xc8, 0x83, 0x87, 0x8b, 0x8f}) {
        EXPECT_EQ(decode(bits(first), 9), refused) << first; // reserved bits and opcodes
    }
    EXPECT_EQ(decode(bits(0x80), 9), refused) << "continuation without a message";
    EXPECT_EQ(decode(part(Opcode::text, "a") + frame(Opcode::text, "b"), 99), refused);
    EXPECT_EQ(decode(part(Opcode::ping, ""), 99), refused) << "fragmented control frame";
    EXPECT_EQ(decode(raw({0x89, 0xfe, 0, 126}) + std::string(130, 'x'), 999), refused);
    EXPECT_EQ(decode(raw({0x82, 0xfe, 0, 125}) + std::string(129, 'x'), 999), refused)
        << "length not in its shortest form";
    EXPECT_EQ(decode(raw({0x82, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff}) + "keys", 999), refused);
    EXPECT_EQ(decode(raw({0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0}) + "keys", 999), refused);
}

TEST(WebSocketFrames, WithAnInvalidCloseAreRefused) {
    const auto close = [](int code, const std::string& reason = "") {
        return decode(frame(Opcode::close, raw({code >> 8, code & 0xff}) + reason), 999);
    };
    for (const int code : {0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535}) {
        EXPECT_EQ(close(code), Events{"failed 1002"}) << code;
    }
    for (const int code : {1000, 1003, 1007, 1011, 1014, 3000, 4999}) {
        EXPECT_EQ(close(code), Events{"close " + std::to_string(code) + " "});
    }
    EXPECT_EQ(close(1000, "\xc3"), Events{"failed 1007"});
    EXPECT_EQ(decode(frame(Opcode::close, "x"), 99), Events{"failed 1002"});
    EXPECT_EQ(decode(frame(Opcode::close, ""), 99), Events{"close 1005 "});
}

TEST(WebSocketFrames, AfterACloseAreIgnored) {
    EXPECT_EQ(decode(frame(Opcode::close, "") + frame(Opcode::text, "late"), 99),
              Events{"close 1005 "});
}

TEST(WebSocketFrames, BeyondTheLimitAreRefusedByTheirHeader) {
    EXPECT_EQ(decode(frame(Opcode::binary, "12345678"), 99, Role::server, 8),
              Events{"binary 12345678"});
    EXPECT_EQ(decode(frame(Opcode::binary, "123456789").substr(0, 6), 99, Role::server, 8),
              Events{"failed 1009"});
    EXPECT_EQ(
        decode(part(Opcode::binary, "12345") + frame(Opcode::continuation, "6789").substr(0, 6), 99,
               Role::server, 8),
        Events{"failed 1009"});
}

TEST(WebSocketFrames, WithInvalidTextFailAtItsFirstWrongByte) {
    EXPECT_EQ(decode(frame(Opcode::text, "\xed\xa0\x80"), 99), Events{"failed 1007"});
    EXPECT_EQ(decode(frame(Opcode::text, "abc\xc3"), 99), Events{"failed 1007"});
    // The rest of the frame has not arrived.
    const std::string wire = frame(Opcode::text, "abc\xff" + std::string(1000, 'x'));
    EXPECT_EQ(decode(wire.substr(0, 12), 99), Events{"failed 1007"});
    // A character in two fragments.
    expect_in_any_parts(part(Opcode::text, "\xe2\x82") + frame(Opcode::continuation, "\xac"),
                        {"text \xe2\x82\xac"});
    EXPECT_EQ(decode(part(Opcode::text, "\xe2\x82") + frame(Opcode::continuation, "x"), 99),
              Events{"failed 1007"});
}

TEST(WebSocketFrames, CanBeStreamedWithoutBuffer) {
    FrameDecoder decoder(Role::server, {.maximum_message = ~std::uint64_t{0}});
    const MaskKey zero{};
    const FrameHeader written(Opcode::binary, std::uint64_t{1} << 40, zero);
    const auto header = written.bytes();
    std::vector<std::byte> received(header.begin(), header.end());
    received.resize(received.size() + 1000);
    std::span<std::byte> input = received;
    FrameDecoder::Event event = decoder.next(input);
    EXPECT_EQ(event.kind, FrameDecoder::Kind::data);
    EXPECT_TRUE(event.first);
    EXPECT_FALSE(event.last);
    EXPECT_EQ(event.payload.size(), 1000U);
    EXPECT_EQ(event.payload.data(), received.data() + header.size());
    EXPECT_EQ(event.frame_remaining, (std::uint64_t{1} << 40) - 1000);
    EXPECT_TRUE(decoder.inside_message());
}

TEST(WebSocketFrames, HaveTheShortestLength) {
    const auto size = [](std::uint64_t payload) {
        return FrameHeader(Opcode::binary, payload).bytes().size();
    };
    EXPECT_EQ(size(125), 2U);
    EXPECT_EQ(size(126), 4U);
    EXPECT_EQ(size(65535), 4U);
    EXPECT_EQ(size(65536), 10U);
    EXPECT_EQ(FrameHeader(Opcode::binary, 65536, key).bytes().size(), maximum_frame_header);
}

TEST(WebSocketClose, CutsItsReasonBetweenCharacters) {
    std::string reason;
    for (int i = 0; i < 50; ++i) {
        reason += "\xe2\x82\xac";
    }
    const ClosePayload payload(1000, reason);
    EXPECT_EQ(payload.bytes().size(), 2U + 41 * 3);
    EXPECT_EQ(text_of(payload.bytes().subspan(2)), reason.substr(0, 123));
    EXPECT_EQ(ClosePayload(1000, "a" + reason).bytes().size(), 2U + 1 + 40 * 3);
    EXPECT_TRUE(ClosePayload(close_code::none).bytes().empty());
    EXPECT_EQ(text_of(ClosePayload(1001).bytes()), raw({0x03, 0xe9}));
}

TEST(WebSocketMask, IsThatOfEachByteAtEverySizeAndPlace) {
    std::vector<std::byte> source(300);
    for (std::size_t i = 0; i < source.size(); ++i) {
        source[i] = static_cast<std::byte>(i * 7);
    }
    for (std::size_t size = 0; size < 200; ++size) {
        for (std::size_t offset = 0; offset < 9; ++offset) {
            std::vector<std::byte> expected(size);
            for (std::size_t i = 0; i < size; ++i) {
                expected[i] = source[i + offset] ^ key[(i + offset) % 4];
            }
            std::vector<std::byte> copied(size);
            const auto part = std::span(source).subspan(offset, size);
            copy_masked(copied.data(), part, key, offset);
            EXPECT_EQ(copied, expected);
            std::vector<std::byte> in_place(part.begin(), part.end());
            apply_mask(in_place, key, offset);
            EXPECT_EQ(in_place, expected);
        }
    }
}

TEST(WebSocketMask, KeysDiffer) {
    MaskKeys keys;
    std::vector<MaskKey> drawn(1000);
    for (MaskKey& key : drawn) {
        key = keys.next();
    }
    std::ranges::sort(drawn);
    const auto repeated = std::ranges::unique(drawn);
    EXPECT_LT(repeated.size(), 5U);
}

/// Decodes one character as RFC 3629's grammar has it, without regard to speed; 0 if it is invalid.
std::size_t character_size(std::string_view text) {
    const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const auto tail = [&](std::size_t i, int low = 0x80, int high = 0xbf) {
        return i < text.size() && at(i) >= low && at(i) <= high;
    };
    const unsigned char lead = at(0);
    if (lead < 0x80) {
        return 1;
    }
    if (lead >= 0xc2 && lead <= 0xdf) {
        return tail(1) ? 2 : 0;
    }
    if (lead >= 0xe0 && lead <= 0xef) {
        return tail(1, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf) && tail(2) ? 3 : 0;
    }
    if (lead >= 0xf0 && lead <= 0xf4) {
        return tail(1, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf) && tail(2) && tail(3)
                   ? 4
                   : 0;
    }
    return 0;
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const std::size_t size = character_size(text);
        if (size == 0) {
            return false;
        }
        text.remove_prefix(size);
    }
    return true;
}

TEST(Utf8Validator, AgreesWithTheGrammarOnRandomTexts) {
    std::mt19937 random(1);
    const std::array<std::string_view, 12> pieces{"a",
                                                  "0123456789abcdefghijklmnopqrstuvwxyz",
                                                  "\xc3\xa4",
                                                  "\xe2\x82\xac",
                                                  "\xf0\x9f\x98\x80",
                                                  "\xed\x9f\xbf",
                                                  "\xf4\x8f\xbf\xbf",
                                                  "\xe0\xa0\x80",
                                                  "\xf0\x90\x80\x80",
                                                  "\xc3",
                                                  "\xed\xa0\x80",
                                                  "\xf5\x80\x80\x80"};
    int valid = 0;
    for (int round = 0; round < 20'000; ++round) {
        std::string text;
        const std::size_t count = random() % 6;
        for (std::size_t i = 0; i < count; ++i) {
            text += pieces[random() % (random() % 4 == 0 ? pieces.size() : 9)];
        }
        if (!text.empty() && random() % 4 == 0) {
            text[random() % text.size()] = static_cast<char>(random());
        }
        Utf8Validator validator;
        bool good = true;
        for (std::size_t at = 0; good && at < text.size();) {
            const std::size_t size = 1 + random() % text.size();
            good = validator.add(bytes_of(text).subspan(at, std::min(size, text.size() - at)));
            at += size;
        }
        good = good && validator.complete();
        ASSERT_EQ(good, is_utf8(text)) << round;
        valid += good ? 1 : 0;
        if (good) {
            ASSERT_EQ(validator.ascii(),
                      std::ranges::none_of(text, [](char c) { return (c & 0x80) != 0; }));
        }
    }
    EXPECT_GT(valid, 5000);
    EXPECT_LT(valid, 18'000);
}

TEST(Utf8Validator, AgreesWithTheGrammarOnEveryPairAfterEveryLead) {
    for (int lead = 0x80; lead < 0x100; ++lead) {
        for (int second = 0; second < 0x100; ++second) {
            for (const std::string_view rest : {"", "\x80", "\xbf\xbf"}) {
                const std::string text = raw({lead, second}) + std::string(rest);
                Utf8Validator validator;
                ASSERT_EQ(validator.add(bytes_of(text)) && validator.complete(), is_utf8(text));
            }
        }
    }
}

} // namespace
