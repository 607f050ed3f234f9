// The hash of tables whose keys a peer chooses.

#include <penstock/detail/keyed_hash.hpp>

#include <cstdint>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace {

using penstock::detail::HashKey;
using penstock::detail::keyed_hash;
using penstock::detail::KeyedHash;
using penstock::detail::process_hash_key;

TEST(KeyedHash, IsSipHashOfOneAndThreeRounds) {
    // The hash of bytes in CPython, with PYTHONHASHSEED=0.
    const HashKey none;
    EXPECT_EQ(keyed_hash(none, "a"), 0x407448d2b89b1813U);
    EXPECT_EQ(keyed_hash(none, "1234567"), 0xa33d651594fdae81U);
    EXPECT_EQ(keyed_hash(none, "12345678"), 0x3489982430560a87U);
    EXPECT_EQ(keyed_hash(none, "hash flooding"), 0xe9e515dd854d91edU);
    std::string all;
    for (int byte = 0; byte < 64; ++byte) {
        all += static_cast<char>(byte);
    }
    EXPECT_EQ(keyed_hash(none, all), 0x75e05fd5bbc870c6U);
    const HashKey counted{.low = 0x0706050403020100U, .high = 0x0f0e0d0c0b0a0908U};
    EXPECT_EQ(keyed_hash(counted, ""), 0xabac0158050fc4dcU);
}

TEST(KeyedHash, OnlyTheProcessKnowsItsKey) {
    const HashKey& key = process_hash_key();
    EXPECT_EQ(&key, &process_hash_key());
    EXPECT_TRUE(key.low != 0 && key.high != 0); // but once in 2^63 processes
    EXPECT_EQ(KeyedHash()("a"), keyed_hash(key, "a"));
    EXPECT_EQ(KeyedHash()(std::string("a")), KeyedHash()(std::string_view("a")));
}

} // namespace
