// The content codings br and zstd, decoded by the libraries' own decoders.

#include <penstock/codec/http/content_encoder.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "support/allocated_bytes.hpp"

namespace {

using penstock::codec::http::brotli;
using penstock::codec::http::ContentCoding;
using penstock::codec::http::ContentEncoder;
using penstock::codec::http::zstd;
using penstock::testing::allocated_bytes;

struct Decoded {
    std::string text;
    bool ended = false; ///< the data have come to their own end
};

/// A function of a library that is never closed.
template <typename Function> Function* function_of(const char* library, const char* name) {
    void* const loaded = ::dlopen(library, RTLD_NOW);
    void* const found = loaded == nullptr ? nullptr : ::dlsym(loaded, name);
    if (found == nullptr) {
        throw std::runtime_error(std::string(library) + " has no " + name);
    }
    return reinterpret_cast<Function*>(found);
}

constexpr std::size_t room = 2'000'000;

Decoded decoded_brotli(const std::string& coded) {
    constexpr const char* library = "libbrotlidec.so.1";
    const auto create =
        function_of<void*(void*, void*, void*)>(library, "BrotliDecoderCreateInstance");
    const auto destroy = function_of<void(void*)>(library, "BrotliDecoderDestroyInstance");
    const auto decode =
        function_of<int(void*, std::size_t*, const std::uint8_t**, std::size_t*, std::uint8_t**,
                        std::size_t*)>(library, "BrotliDecoderDecompressStream");
    Decoded decoded{.text = std::string(room, '\0')};
    void* const state = create(nullptr, nullptr, nullptr);
    const auto* from = reinterpret_cast<const std::uint8_t*>(coded.data());
    auto* into = reinterpret_cast<std::uint8_t*>(decoded.text.data());
    std::size_t left = coded.size();
    std::size_t room_left = room;
    const int result = decode(state, &left, &from, &room_left, &into, nullptr);
    destroy(state);
    EXPECT_NE(result, 0); // an error
    decoded.ended = result == 1 && left == 0;
    decoded.text.resize(room - room_left);
    return decoded;
}

Decoded decoded_zstd(const std::string& coded) {
    struct Buffer {
        const void* data;
        std::size_t size;
        std::size_t used;
    };
    constexpr const char* library = "libzstd.so.1";
    const auto create = function_of<void*()>(library, "ZSTD_createDCtx");
    const auto destroy = function_of<std::size_t(void*)>(library, "ZSTD_freeDCtx");
    const auto decode =
        function_of<std::size_t(void*, Buffer*, Buffer*)>(library, "ZSTD_decompressStream");
    const auto is_error = function_of<unsigned(std::size_t)>(library, "ZSTD_isError");
    Decoded decoded{.text = std::string(room, '\0')};
    void* const context = create();
    Buffer into{.data = decoded.text.data(), .size = room, .used = 0};
    Buffer from{.data = coded.data(), .size = coded.size(), .used = 0};
    std::size_t result = 1;
    std::size_t before = 0;
    do {
        before = from.used + into.used;
        result = decode(context, &into, &from);
        EXPECT_EQ(is_error(result), 0U);
    } while (result != 0 && from.used + into.used > before);
    destroy(context);
    decoded.ended = result == 0 && from.used == from.size;
    decoded.text.resize(into.used);
    return decoded;
}

struct Case {
    std::optional<ContentCoding> (*coding)(int);
    Decoded (*decoded)(const std::string&);
};

constexpr std::array cases{Case{.coding = &brotli, .decoded = &decoded_brotli},
                           Case{.coding = &zstd, .decoded = &decoded_zstd}};

std::unique_ptr<ContentEncoder> encoder_of(const Case& each, int level) {
    const std::optional<ContentCoding> coding = each.coding(level);
    if (!coding) { // scripts/setup installs both
        throw std::runtime_error("a library of a content coding is missing");
    }
    return coding->make();
}

std::span<const std::byte> bytes(const std::string& text) {
    return std::as_bytes(std::span(text));
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

TEST(ContentCodings, WhatTheyMakeDecodesToTheWhole) {
    for (const Case& each : cases) {
        for (const int level : {-5, 1, 4, 9}) {
            for (const std::size_t size : {0, 1, 1'000, 100'000, 300'000}) {
                const std::string text = varied(size);
                std::string coded = "before";
                encoder_of(each, level)->finish(bytes(text), coded);
                const Decoded found = each.decoded(coded.substr(6));
                EXPECT_EQ(found.text, text) << level << " " << size;
                EXPECT_TRUE(found.ended);
                EXPECT_LT(coded.size(), size + 100);
            }
        }
    }
}

TEST(ContentCodings, EachPartCanBeDecodedAtOnce) {
    for (const Case& each : cases) {
        const std::unique_ptr<ContentEncoder> encoder = encoder_of(each, 4);
        std::string coded;
        std::string given;
        for (const std::size_t size : {1, 0, 500, 70'000, 3}) {
            const std::string part = varied(size);
            given += part;
            encoder->encode(bytes(part), coded);
            const Decoded found = each.decoded(coded);
            EXPECT_EQ(found.text, given) << size;
            EXPECT_FALSE(found.ended);
        }
        encoder->finish({}, coded);
        const Decoded found = each.decoded(coded);
        EXPECT_EQ(found.text, given);
        EXPECT_TRUE(found.ended);
    }
}

TEST(ContentCodings, BodiesBehindAndBesideEachOtherAreThoseOfNewEncoders) {
    for (const Case& each : cases) {
        std::string first;
        encoder_of(each, 4)->finish(bytes(varied(50'000)), first);
        for (int round = 0; round < 3; ++round) {
            const std::unique_ptr<ContentEncoder> one = encoder_of(each, 4);
            const std::unique_ptr<ContentEncoder> other = encoder_of(each, 4);
            std::string of_one;
            std::string of_other;
            one->encode(bytes(varied(100)), of_one);
            other->encode(bytes(varied(200)), of_other);
            encoder_of(each, 4)->encode(bytes("given up"), first);
            one->finish(bytes(varied(300)), of_one);
            other->finish(bytes(varied(400)), of_other);
            EXPECT_EQ(each.decoded(of_one).text, varied(100) + varied(300));
            EXPECT_EQ(each.decoded(of_other).text, varied(200) + varied(400));
            std::string again;
            encoder_of(each, 4)->finish(bytes(varied(50'000)), again);
            const Decoded found = each.decoded(again);
            EXPECT_EQ(found.text, varied(50'000));
            EXPECT_TRUE(found.ended);
        }
    }
}

TEST(ContentCodings, TheNextBodyOfAThreadMakesNoContextOfZstdAnew) {
    const std::string text = varied(10'000);
    const auto code = [&](int level) {
        std::string coded;
        const std::unique_ptr<ContentEncoder> encoder = zstd(level).value().make();
        encoder->finish(bytes(text), coded);
        return decoded_zstd(coded).text == text;
    };
    EXPECT_TRUE(code(3));
    const std::size_t kept = allocated_bytes();
    const std::unique_ptr<ContentEncoder> next = zstd(3).value().make();
    EXPECT_LT(allocated_bytes(), kept + 2'000); // a new context alone has 5 KiB
    // What a high level needs for much is not kept.
    std::string coded;
    zstd(19).value().make()->encode(bytes(text), coded);
    EXPECT_TRUE(code(19));
    EXPECT_LT(allocated_bytes(), kept + 5'000'000);
}

TEST(ContentCodings, TheirNamesAreThoseOfTheRegistry) {
    EXPECT_EQ(brotli().value().name, "br");
    EXPECT_EQ(zstd().value().name, "zstd");
}

} // namespace
