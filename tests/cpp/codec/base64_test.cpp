// Base64: what is decoded is what was encoded, and nothing else is taken.

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "codec/base64.hpp"

namespace {

using penstock::codec::decode_base64;

std::string encoded(std::string_view text) {
    std::string out(penstock::codec::base64_size(text.size()), '\0');
    penstock::codec::encode_base64(std::as_bytes(std::span(text)), out.data());
    return out;
}

TEST(Base64, WhatWasEncodedIsDecoded) {
    std::string text;
    for (int size = 0; size < 300; ++size) {
        const std::string code = encoded(text);
        EXPECT_EQ(decode_base64(code), text);
        EXPECT_EQ(decode_base64(code.substr(0, code.find('='))), text) << "without padding";
        text += static_cast<char>(size * 37);
    }
}

TEST(Base64, OtherTextsAreRefused) {
    for (const char* text : {"A", "AAAAA", "A===", "AA=", "AAA==", "AAAA=", "AAAA====", "=", "====",
                             "AA AA", "AA\n", "AA-_", "AB==", "AAB=", "A=AA", "\xC3\xA4\xC3\xA4"}) {
        EXPECT_EQ(decode_base64(text), std::nullopt) << text;
    }
}

} // namespace
