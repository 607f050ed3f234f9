#include <penstock/codec/websocket/shared_deflate.hpp>

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "support/allocated_bytes.hpp"

namespace {

using namespace penstock::codec;
using namespace penstock::codec::websocket;
using penstock::testing::allocated_bytes;
using Outcome = MessageInflater::Outcome;

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string text_number(std::size_t number) {
    std::string text;
    while (text.size() < 3000) {
        text += "connection " + std::to_string(number) + ", byte " + std::to_string(text.size());
    }
    return text;
}

std::string compress(MessageDeflater& deflater, std::string_view text) {
    ByteBuffer buffer;
    deflater.deflate(bytes_of(text), true, buffer);
    return text_of(buffer.bytes());
}

TEST(WebSocketSharedDeflate, MessagesOfManyConnectionsMayBeInProgressAtOnce) {
    constexpr std::size_t count = 50;
    std::deque<SharedDeflater> deflaters;
    std::deque<SharedInflater> inflaters;
    for (std::size_t i = 0; i < count; ++i) {
        deflaters.emplace_back(15, Deflater::Options());
        inflaters.emplace_back(15);
    }
    for (int round = 0; round < 2; ++round) {
        std::vector<ByteBuffer> deflated(count);
        std::vector<ByteBuffer> inflated(count);
        for (const bool last : {false, true}) {
            for (std::size_t i = 0; i < count; ++i) {
                const std::string text = text_number(i);
                const std::string_view part = last ? std::string_view(text).substr(1000)
                                                   : std::string_view(text).substr(0, 1000);
                deflaters[i].deflate(bytes_of(part), last, deflated[i]);
            }
        }
        for (const bool last : {false, true}) {
            for (std::size_t i = 0; i < count; ++i) {
                const std::span<const std::byte> data = deflated[i].bytes();
                const std::size_t half = data.size() / 2;
                ASSERT_EQ(inflaters[i].inflate(last ? data.subspan(half) : data.first(half), last,
                                               inflated[i], 1 << 20),
                          Outcome::done);
            }
        }
        for (std::size_t i = 0; i < count; ++i) {
            EXPECT_TRUE(text_of(inflated[i].bytes()) == text_number(i)) << i;
        }
    }
}

TEST(WebSocketSharedDeflate, AnIdleConnectionHoldsNoState) {
    constexpr std::size_t count = 50;
    std::deque<SharedDeflater> deflaters;
    std::deque<SharedInflater> inflaters;
    const std::size_t before = allocated_bytes();
    for (std::size_t i = 0; i < count; ++i) {
        deflaters.emplace_back(15, Deflater::Options());
        inflaters.emplace_back(15);
        const std::string data = compress(deflaters.back(), text_number(i));
        ByteBuffer text;
        ASSERT_EQ(inflaters.back().inflate(bytes_of(data), true, text, 1 << 20), Outcome::done);
    }
    // One state of each direction is 300 KiB, those of all connections would be 15 MiB.
    EXPECT_LT(allocated_bytes(), before + (std::size_t{2} << 20));
}

TEST(WebSocketSharedDeflate, EachMessageIsCompressedAlone) {
    SharedDeflater deflater(15, {});
    const std::string first = compress(deflater, text_number(1));
    EXPECT_TRUE(compress(deflater, text_number(1)) == first);
    Deflater own(15, true);
    EXPECT_TRUE(compress(own, text_number(1)) == first);
    EXPECT_EQ(compress(deflater, ""), std::string(1, '\0'));
    EXPECT_TRUE(compress(deflater, text_number(1)) == first);
}

TEST(WebSocketSharedDeflate, WhatOneConnectionMustNotSendHarmsNoOther) {
    SharedDeflater deflater(15, {});
    const std::string good = compress(deflater, text_number(1));
    SharedInflater bad(15);
    SharedInflater small(15);
    SharedInflater next(15);
    ByteBuffer output;
    EXPECT_EQ(bad.inflate(bytes_of("\xff\xff\xff\xff"), true, output, 1 << 20), Outcome::invalid);
    output.clear();
    EXPECT_EQ(small.inflate(bytes_of(good), true, output, 100), Outcome::too_large);
    output.clear();
    EXPECT_EQ(next.inflate(bytes_of(good), true, output, 1 << 20), Outcome::done);
    EXPECT_TRUE(text_of(output.bytes()) == text_number(1));
}

TEST(WebSocketSharedDeflate, KindsOfStatesAreNotMixed) {
    for (int round = 0; round < 2; ++round) {
        for (int bits = 8; bits <= 15; ++bits) {
            SharedDeflater shared(bits, {.level = 1 + bits % 3});
            Deflater own(bits, true, {.level = 1 + bits % 3});
            const std::string data = compress(shared, text_number(7));
            EXPECT_TRUE(data == compress(own, text_number(7))) << bits;
            SharedInflater inflater(bits);
            ByteBuffer text;
            EXPECT_EQ(inflater.inflate(bytes_of(data), true, text, 1 << 20), Outcome::done);
            EXPECT_TRUE(text_of(text.bytes()) == text_number(7)) << bits;
        }
    }
}

} // namespace
