#include <penstock/owned_descriptor.hpp>

#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace {

using penstock::OwnedDescriptor;

OwnedDescriptor open_one() {
    return OwnedDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

bool is_open(int descriptor) {
    return ::fcntl(descriptor, F_GETFD) >= 0;
}

TEST(OwnedDescriptor, ClosesInItsDestructor) {
    int number = -1;
    {
        const OwnedDescriptor descriptor = open_one();
        number = descriptor.get();
        EXPECT_TRUE(descriptor && is_open(number));
    }
    EXPECT_FALSE(is_open(number));
}

TEST(OwnedDescriptor, IsMovedReplacedAndReleased) {
    OwnedDescriptor first = open_one();
    OwnedDescriptor second = open_one();
    const int closed = first.get();
    const int kept = second.get();
    first = std::move(second);
    EXPECT_FALSE(is_open(closed));
    EXPECT_EQ(first.get(), kept);
    EXPECT_FALSE(second); // NOLINT(bugprone-use-after-move)
    OwnedDescriptor& same = first;
    first = std::move(same);
    EXPECT_TRUE(is_open(kept));
    EXPECT_EQ(first.release(), kept);
    EXPECT_FALSE(first);
    EXPECT_TRUE(is_open(kept));
    first.reset(kept);
    first.reset();
    EXPECT_FALSE(is_open(kept));
}

} // namespace
