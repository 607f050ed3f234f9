#include <penstock/stream/chunk.hpp>

#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace {

using penstock::Chunk;

Chunk filled(std::byte value) {
    Chunk chunk;
    chunk.borrow()[0] = value;
    chunk.resize(1);
    return chunk;
}

TEST(Chunk, HoldsNothingUntilItBorrows) {
    Chunk chunk;
    EXPECT_TRUE(chunk.empty());
    EXPECT_EQ(chunk.data(), nullptr);
    EXPECT_EQ(chunk.borrow().size(), Chunk::capacity);
    chunk.resize(0);
    EXPECT_EQ(chunk.data(), nullptr) << "an empty one has given its buffer back";
}

TEST(Chunk, BorrowsTheMostRecentlyReturnedBuffer) {
    const std::byte* last = nullptr;
    {
        const Chunk chunk = filled(std::byte{1});
        last = chunk.data();
    }
    EXPECT_EQ(filled(std::byte{2}).data(), last);
}

TEST(Chunk, IsMovedWithItsBytes) {
    Chunk first = filled(std::byte{1});
    Chunk second(std::move(first));
    EXPECT_TRUE(first.empty()); // NOLINT(bugprone-use-after-move)
    ASSERT_EQ(second.size(), 1U);
    Chunk& same = second;
    second = std::move(same);
    ASSERT_EQ(second.size(), 1U);
    EXPECT_EQ(*second.begin(), std::byte{1});
}

TEST(Chunk, MayEndOnAnotherThread) {
    std::vector<Chunk> chunks;
    chunks.reserve(8);
    for (int i = 0; i < 8; ++i) {
        chunks.push_back(filled(std::byte{3}));
    }
    std::thread([taken = std::move(chunks)]() mutable {
        EXPECT_EQ(*taken.back().begin(), std::byte{3});
        taken.clear();
        EXPECT_EQ(filled(std::byte{4}).size(), 1U);
    }).join();
}

} // namespace
