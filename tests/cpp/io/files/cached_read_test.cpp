#include <penstock/io/files/cached_read.hpp>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "support/descriptors.hpp"
#include "support/temporary_folder.hpp"

namespace {

using penstock::io::CachedRead;
using penstock::io::FileOperation;
using penstock::io::read_from_cache;
using penstock::io::supports_cached_reads;
using penstock::testing::Descriptor;
using penstock::testing::opened;
using penstock::testing::TemporaryFolder;
using Extent = FileOperation::Extent;

class ReadFromCache : public ::testing::Test {
protected:
    CachedRead read(int fd, std::size_t size, std::int64_t offset, Extent extent) {
        return read_from_cache(fd, buffer.data(), size, offset, extent);
    }
    [[nodiscard]] std::string_view got(const CachedRead& read) const {
        return {buffer.data(), read.count};
    }

    const TemporaryFolder folder;
    std::array<char, 100> buffer{};
};

TEST_F(ReadFromCache, ReadsAFileThatWasJustWritten) {
    const Descriptor file = opened(folder.file("file", "0123456789"));
    const CachedRead part = read(file.get(), 4, 3, Extent::whole);
    EXPECT_TRUE(part.complete);
    EXPECT_EQ(part.error, 0);
    EXPECT_EQ(got(part), "3456");
}

TEST_F(ReadFromCache, CompletesAtTheEndOfTheFile) {
    const Descriptor file = opened(folder.file("file", "0123456789"));
    const CachedRead rest = read(file.get(), buffer.size(), 8, Extent::whole);
    EXPECT_TRUE(rest.complete);
    EXPECT_EQ(got(rest), "89");
    const CachedRead nothing = read(file.get(), buffer.size(), 10, Extent::once);
    EXPECT_TRUE(nothing.complete);
    EXPECT_EQ(nothing.count, 0U);
}

TEST_F(ReadFromCache, MovesTheFilesOwnPosition) {
    const Descriptor file = opened(folder.file("file", "0123456789"));
    for (const std::string_view expected : {"0123", "4567", "89", ""}) {
        const CachedRead next = read(file.get(), 4, FileOperation::current_position, Extent::once);
        EXPECT_TRUE(next.complete);
        EXPECT_EQ(got(next), expected);
    }
}

TEST(SupportsCachedReads, OfAFileButNotOfATerminal) {
    const TemporaryFolder folder;
    const Descriptor file = opened(folder.file("file", "content"));
    EXPECT_TRUE(supports_cached_reads(file.get()));
    const Descriptor terminal(::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC));
    EXPECT_FALSE(supports_cached_reads(terminal.get()));
    EXPECT_FALSE(supports_cached_reads(-1));
}

TEST(SupportsCachedReads, NotWithODirect) {
    const TemporaryFolder folder;
    const Descriptor file = opened(folder.file("file", "content"));
    if (::fcntl(file.get(), F_SETFL, O_DIRECT) != 0) {
        GTEST_SKIP() << "the file system of the temporary folder has no O_DIRECT";
    }
    EXPECT_FALSE(supports_cached_reads(file.get()));
}

TEST_F(ReadFromCache, ReadsFilesInMemoryToo) {
    const std::string path = "/dev/shm/penstock-cached-read-" + std::to_string(::getpid());
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        GTEST_SKIP() << "no /dev/shm";
    }
    ::unlink(path.c_str());
    const Descriptor file(fd);
    ASSERT_EQ(::write(fd, "memory", 6), 6);
    const CachedRead all = read(fd, buffer.size(), 0, Extent::whole);
    EXPECT_TRUE(all.complete);
    EXPECT_EQ(got(all), "memory");
}

TEST_F(ReadFromCache, LeavesAnEmptyPipeToTheEngine) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const Descriptor reader(ends[0]);
    const Descriptor writer(ends[1]);
    const CachedRead nothing =
        read(reader.get(), buffer.size(), FileOperation::current_position, Extent::once);
    EXPECT_FALSE(nothing.complete);
    EXPECT_EQ(nothing.error, 0);
    EXPECT_EQ(nothing.count, 0U);
}

TEST_F(ReadFromCache, ReportsTheErrorOfADescriptorThatIsNotOpen) {
    const CachedRead failed = read(-1, buffer.size(), 0, Extent::whole);
    EXPECT_TRUE(failed.complete);
    EXPECT_EQ(failed.error, EBADF);
}

} // namespace
