// Which file systems answer from memory.

#include <penstock/io/files/local_status.hpp>

#include <fcntl.h>
#include <sys/statfs.h>

#include <gtest/gtest.h>
#include <linux/magic.h>

#include <penstock/io/files/read_status.hpp>

namespace {

using penstock::io::is_local;
using penstock::io::local_status_mask;
using penstock::io::Storage;
using penstock::io::storage_of;

struct statx status_of(const char* path) {
    struct statx status = {};
    EXPECT_EQ(
        penstock::io::read_status(AT_FDCWD, path, AT_STATX_DONT_SYNC, local_status_mask, status), 0)
        << path;
    return status;
}

TEST(LocalStatus, KnowsFileSystemsOfBlockDevices) {
    struct statx status = {};
    status.stx_dev_major = 254;
    EXPECT_TRUE(is_local(status));
    EXPECT_EQ(storage_of(status), Storage::device);
}

TEST(LocalStatus, TrustsNoDeviceNumberOfAnUnknownMount) {
    struct statx status = {};
    status.stx_mask = STATX_BASIC_STATS;
    EXPECT_FALSE(is_local(status));
}

TEST(LocalStatus, KnowsMemoryFileSystemsByTheirMount) {
    const struct statx status = status_of("/dev/shm");
    struct statfs system = {};
    ASSERT_EQ(::statfs("/dev/shm", &system), 0);
    if (system.f_type != TMPFS_MAGIC || (status.stx_mask & ~STATX_BASIC_STATS & 0x4000U) == 0) {
        GTEST_SKIP() << "/dev/shm is no tmpfs, or the kernel has no unique numbers of mounts";
    }
    EXPECT_TRUE(is_local(status));
    EXPECT_TRUE(is_local(status)); // remembered
    EXPECT_EQ(storage_of(status), Storage::memory);
}

TEST(LocalStatus, DoesNotTakeOtherFileSystemsWithoutADeviceForLocal) {
    EXPECT_FALSE(is_local(status_of("/proc/self/status")));
    EXPECT_FALSE(is_local(status_of("/proc/self/status")));
    EXPECT_EQ(storage_of(status_of("/proc/self/status")), Storage::unknown);
}

} // namespace
