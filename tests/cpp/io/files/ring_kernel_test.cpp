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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <penstock/io/event_loop.hpp>

#if __has_include(<liburing.h>)
#include <liburing.h>
#define PENSTOCK_TEST_HAS_LIBURING
#endif

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

#ifdef PENSTOCK_TEST_HAS_LIBURING

/// A kernel that takes so many requests and then refuses for good, as after a seccomp filter was
/// installed.
struct RefusingLater final : RingKernel {
    RefusingLater(unsigned taken, int error) : left(taken), error(error) {}

    int submit(io_uring& ring) noexcept override {
        if (left == 0) {
            ++refused;
            return -error;
        }
        // As io_uring_submit, with fewer requests than there are.
        __atomic_store_n(ring.sq.ktail, ring.sq.sqe_tail, __ATOMIC_RELEASE);
        ring.sq.sqe_head = ring.sq.sqe_tail;
        const auto count =
            static_cast<int>(::syscall(SYS_io_uring_enter, ring.ring_fd, left, 0, 0, nullptr, 0));
        left -= count > 0 ? static_cast<unsigned>(count) : 0;
        return count >= 0 ? count : -errno;
    }

    unsigned left;
    int error;
    int refused = 0;
};

/// Appends, reads and whole reads that were started together, and more of them after those.
void work_on(penstock::io::FileEngine& engine, const TemporaryFolder& folder) {
    constexpr std::size_t count = 12;
    const std::string source = folder.file("source", "content");
    const Descriptor target = opened(folder.path("target"), O_RDWR | O_CREAT | O_APPEND);
    for (int round = 0; round < 2; ++round) {
        std::vector<TestOperation> appends(count);
        std::vector<TestOperation> wholes(count);
        std::vector<std::array<char, 7>> memory(count);
        for (std::size_t i = 0; i < count; ++i) {
            appends[i].to_write(target.get(), "x", 1, 0);
            wholes[i].to_read_file(source.c_str(), memory[i].data(), memory[i].size());
            ASSERT_FALSE(engine.start(appends[i]) || engine.start(wholes[i]));
        }
        TestOperation cancelled;
        char byte = 0;
        cancelled.to_read(target.get(), &byte, 1, 0);
        ASSERT_FALSE(engine.start(cancelled));
        engine.cancel(cancelled);
        penstock::testing::complete_all(engine);
        EXPECT_EQ(cancelled.results.size(), 1U);
        for (std::size_t i = 0; i < count; ++i) {
            EXPECT_EQ(appends[i].results, std::vector<std::int64_t>{1});
            EXPECT_EQ(wholes[i].results, std::vector<std::int64_t>{7});
            EXPECT_EQ(std::string(memory[i].data(), memory[i].size()), "content");
        }
        struct stat status{};
        ASSERT_EQ(::fstat(target.get(), &status), 0);
        EXPECT_EQ(static_cast<std::size_t>(status.st_size),
                  count * static_cast<std::size_t>(round + 1))
            << "no append is lost or made twice";
    }
    ::unlink(folder.path("target").c_str());
}

TEST_F(RingKernelTest, ARefusedRingHandsItsQueueToTheThreadsOnce) {
    for (const int error : {EPERM, ENOSYS, EBADF, EINVAL, ENXIO}) {
        for (const unsigned taken : {0U, 1U, 2U, 3U, 5U, 11U, 30U, 50U}) {
            RefusingLater kernel(taken, error);
            const auto engine = make_uring_engine({.ring_entries = 8}, kernel);
            EXPECT_EQ(engine->name(), "uring");
            work_on(*engine, folder);
            EXPECT_EQ(engine->name(), "threads") << taken;
            EXPECT_EQ(engine->ring_refusal(), error);
            EXPECT_EQ(kernel.refused, 1) << "it is not asked again";
        }
    }
}

TEST_F(RingKernelTest, AWholeReadInSeveralPartsSurvivesARefusal) {
    const std::string content(300'000, 'c');
    const std::string path = folder.file("file", content);
    for (unsigned taken = 0; taken < 8; ++taken) {
        RefusingLater kernel(taken, EPERM);
        const auto engine = make_uring_engine({.max_transfer = 50'000}, kernel);
        std::string memory(content.size(), '#');
        EXPECT_EQ(
            run(*engine,
                [&](auto& it) { it.to_read_file(path.c_str(), memory.data(), memory.size()); }),
            static_cast<std::int64_t>(content.size()))
            << taken;
        EXPECT_TRUE(memory == content) << taken;
    }
}

TEST_F(RingKernelTest, ARefusedRingDoesNotKeepALoopAwake) {
    RefusingLater kernel(0, EPERM);
    const auto engine = make_uring_engine({}, kernel);
    EventLoop loop;
    ASSERT_FALSE(loop.attach(*engine));
    const penstock::testing::Pipe pipe;
    const Descriptor file = opened(folder.file("file", "content"));
    char byte = 0;
    TestOperation waits;
    TestOperation read;
    waits.to_read(pipe.out.get(), &byte, 1, FileOperation::current_position);
    read.to_read(file.get(), &byte, 1, 0);
    ASSERT_FALSE(engine->start(waits) || engine->start(read));
    while (read.in_flight()) {
        loop.run_once();
    }
    EXPECT_FALSE(engine->flush()) << "nothing is left to deliver";
    engine->cancel(waits);
    while (waits.in_flight()) {
        loop.run_once();
    }
    EXPECT_EQ(waits.results, std::vector<std::int64_t>{-ECANCELED});
    loop.detach_files();
}

#endif

} // namespace
