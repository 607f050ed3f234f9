// The ring on kernels that refuse it, lack an opcode or are short of memory.

#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <penstock/io/event_loop.hpp>

#include "io/files/engine_making.hpp"
#include "support/descriptors.hpp"
#include "support/file_engines.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::io::EventLoop;
using penstock::io::FileOperation;
using penstock::io::make_uring_engine;
using penstock::io::RingKernel;
using penstock::testing::Descriptor;
using penstock::testing::opened;
using penstock::testing::Ring;
using penstock::testing::run;
using penstock::testing::TemporaryFolder;
using penstock::testing::TestOperation;
using penstock::testing::Watchdog;

constexpr auto whole = FileOperation::Extent::whole;

class RingKernelTest : public ::testing::Test {
protected:
    void SetUp() override {
        if (Ring::refused()) {
            GTEST_SKIP() << "io_uring is refused here";
        }
    }

    const Watchdog watchdog;
    const TemporaryFolder folder;
};

TEST_F(RingKernelTest, ARefusalFailsTheMakingOfTheEngine) {
    struct Refusing final : RingKernel {
        int set_up(unsigned /*entries*/, io_uring& /*ring*/,
                   io_uring_params& /*parameters*/) noexcept override {
            return -EPERM;
        }
    } kernel;
    try {
        const auto engine = make_uring_engine({}, kernel);
        FAIL() << "made " << engine->name();
    } catch (const std::system_error& error) {
        EXPECT_EQ(error.code().value(), EPERM);
    }
}

TEST_F(RingKernelTest, SubmissionsThatTheKernelHasNoMemoryForAreRepeated) {
    struct ShortOfMemory final : RingKernel {
        int submit(io_uring& ring) noexcept override {
            return failures-- > 0 ? -EAGAIN : RingKernel::submit(ring);
        }
        int failures = 25;
    } kernel;
    const auto engine = make_uring_engine({.ring_entries = 4}, kernel);
    EventLoop loop;
    ASSERT_FALSE(loop.attach(*engine));
    const Descriptor file = opened(folder.file("file", "content"));
    std::vector<TestOperation> reads(20);
    std::array<char, 20> bytes{};
    for (std::size_t i = 0; i < reads.size(); ++i) {
        reads[i].to_read(file.get(), &bytes[i], 1, 0);
        ASSERT_FALSE(engine->start(reads[i]));
    }
    engine->cancel(reads.back());
    while (engine->in_flight() != 0) {
        loop.run_once();
    }
    loop.detach_files();
    EXPECT_LT(kernel.failures, 0) << "every failure has occurred";
    EXPECT_EQ(reads.back().results.size(), 1U);
    reads.pop_back();
    for (const TestOperation& read : reads) {
        EXPECT_EQ(read.results, (std::vector<std::int64_t>{1}));
    }
}

TEST_F(RingKernelTest, AMissingOpcodeIsReplacedByWorkerThreadsOrRefused) {
    struct Lacking final : RingKernel {
        std::uint64_t supported_opcodes(io_uring& ring) noexcept override {
            return RingKernel::supported_opcodes(ring) & ~(std::uint64_t{1} << missing);
        }
        unsigned missing = 0;
    } kernel;
    int refused = 0;
    for (kernel.missing = 0; kernel.missing < 64; ++kernel.missing) {
        const unsigned opcode = kernel.missing;
        std::unique_ptr<penstock::io::FileEngine> engine;
        try {
            engine = make_uring_engine({}, kernel);
        } catch (const std::system_error& error) {
            EXPECT_EQ(error.code().value(), ENOSYS) << opcode;
            ++refused;
            continue;
        }
        const std::string path = folder.path("file");
        const auto fd = run(
            *engine, [&](auto& it) { it.to_open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600); });
        ASSERT_GE(fd, 0) << opcode;
        const auto file = static_cast<int>(fd);
        std::string bytes = "abcdef";
        EXPECT_EQ(run(*engine, [&](auto& it) { it.to_write(file, "abcdef", 6, 0); }), 6);
        EXPECT_EQ(run(*engine, [&](auto& it) { it.to_truncate(file, 4); }), 0);
        EXPECT_EQ(run(*engine, [&](auto& it) { it.to_read(file, bytes.data(), 6, 0, whole); }), 4);
        EXPECT_EQ(run(*engine, [&](auto& it) { it.to_fsync(file); }), 0);
        EXPECT_EQ(run(*engine, [&](auto& it) { it.to_close(file); }), 0);
        EXPECT_EQ(run(*engine, [&](auto& it) { it.to_read_file(path.c_str(), bytes.data(), 4); }),
                  4);
        EXPECT_EQ(run(*engine, [&](auto& it) { it.to_unlink(path.c_str()); }), 0);
    }
    EXPECT_EQ(refused, 5) << "read, readv, write, writev and cancel are needed";
}

} // namespace
