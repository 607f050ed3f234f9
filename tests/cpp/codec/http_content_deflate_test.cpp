// The content coding gzip, decoded by zlib itself.

#include <penstock/codec/http/content_encoder.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

#include "support/allocated_bytes.hpp"

namespace {

using penstock::codec::http::all_codings;
using penstock::codec::http::ContentCoding;
using penstock::codec::http::ContentEncoder;
using penstock::codec::http::gzip;
using penstock::testing::allocated_bytes;

std::span<const std::byte> bytes(const std::string& text) {
    return std::as_bytes(std::span(text));
}

/// Decodes as far as the data go. `ended` tells whether they have come to their own end.
std::string decoded(const std::string& coded, bool& ended) {
    z_stream stream{};
    EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
    std::string input = coded;
    std::string output(2'000'000, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(input.data());
    stream.avail_in = static_cast<uInt>(input.size());
    stream.next_out = reinterpret_cast<Bytef*>(output.data());
    stream.avail_out = static_cast<uInt>(output.size());
    ended = inflate(&stream, Z_SYNC_FLUSH) == Z_STREAM_END;
    output.resize(output.size() - stream.avail_out);
    inflateEnd(&stream);
    return output;
}

std::string varied(std::size_t size) {
    std::string text(size, ' ');
    unsigned state = 1;
    for (char& each : text) {
        state = state * 1'103'515'245U + 12'345U;
        each = static_cast<char>('a' + (state >> 16U) % 26U);
    }
    return text;
}

TEST(ContentEncoder, WhatItMakesDecodesToTheWhole) {
    for (const int level : {-5, 1, 5, 9, 100}) {
        for (const std::size_t size : {0, 1, 1'000, 100'000, 1'000'000}) {
            const std::string text = varied(size);
            std::string coded = "before";
            gzip(level).make()->finish(bytes(text), coded);
            bool ended = false;
            EXPECT_EQ(decoded(coded.substr(6), ended), text) << level << " " << size;
            EXPECT_TRUE(ended);
        }
    }
}

TEST(ContentEncoder, EachPartCanBeDecodedAtOnce) {
    const std::unique_ptr<ContentEncoder> encoder = gzip().make();
    std::string coded;
    std::string given;
    bool ended = false;
    for (const std::size_t size : {1, 0, 500, 70'000, 3}) {
        const std::string part = varied(size);
        given += part;
        encoder->encode(bytes(part), coded);
        EXPECT_EQ(decoded(coded, ended), given) << size;
        EXPECT_FALSE(ended);
    }
    encoder->finish({}, coded);
    EXPECT_EQ(decoded(coded, ended), given);
    EXPECT_TRUE(ended);
    EXPECT_EQ(gzip().name, "gzip");
}

TEST(ContentEncoder, BodiesBehindAndBesideEachOtherAreThoseOfNewEncoders) {
    const std::string text = varied(50'000);
    const auto coded_alone = [](const std::string& body, int level) {
        std::string coded;
        gzip(level).make()->finish(bytes(body), coded);
        return coded;
    };
    const std::string first = coded_alone(text, 5);
    for (int round = 0; round < 3; ++round) {
        std::vector<std::unique_ptr<ContentEncoder>> open;
        for (int i = 0; i < 6; ++i) { // more than are kept
            open.push_back(gzip(5).make());
        }
        std::vector<std::string> coded(open.size());
        for (std::size_t i = 0; i < open.size(); ++i) {
            open[i]->encode(bytes(varied(i * 100)), coded[i]);
        }
        for (std::size_t i = 0; i + 1 < open.size(); ++i) { // the last one is given up
            open[i]->finish(bytes(text), coded[i]);
            bool ended = false;
            EXPECT_EQ(decoded(coded[i], ended), varied(i * 100) + text);
            EXPECT_TRUE(ended);
        }
        open.clear();
        EXPECT_EQ(coded_alone(text, 5), first);
        EXPECT_NE(coded_alone(text, 1), first);
    }
}

TEST(ContentEncoder, TheNextBodyOfAThreadMakesNoStateAnew) {
    std::string coded;
    gzip(5).make()->finish(bytes(varied(1'000)), coded);
    const std::size_t before = allocated_bytes();
    const std::unique_ptr<ContentEncoder> next = gzip(5).make();
    EXPECT_LT(allocated_bytes(), before + 10'000); // a state has 270 KiB
    next->finish({}, coded);
}

TEST(ContentEncoder, AllCodingsEndWithTheOneThatIsAlwaysThere) {
    const std::vector<ContentCoding> all = all_codings();
    ASSERT_FALSE(all.empty());
    EXPECT_EQ(all.back().name, "gzip");
    std::string names;
    for (const ContentCoding& each : all) {
        names += each.name + " ";
    }
    EXPECT_EQ(names, "zstd br gzip "); // scripts/setup installs the libraries
}

} // namespace
