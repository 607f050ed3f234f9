// Open files: reading, writing, positions, errors, cancellation.

#include <penstock/fs/file.hpp>
#include <penstock/fs/paths.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/canceller.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/timeout.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coro/support/tcp_pair.hpp"
#include "support/descriptors.hpp"
#include "support/temporary_folder.hpp"

namespace {

using penstock::all;
using penstock::Canceller;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::fs::File;
using penstock::fs::OpenOptions;
using penstock::testing::expect;
using penstock::testing::NoDescriptors;
using penstock::testing::TemporaryFolder;

TEST(File, ReadsWhatItHasWritten) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        File file = (co_await File::open(folder.path("file"),
                                         {.read = true, .write = true, .create = true}))
                        .value();
        EXPECT_TRUE(co_await file.write_all("hello "));
        EXPECT_TRUE(co_await file.write_all("world"));
        EXPECT_EQ(file.position(), 11U);
        EXPECT_EQ(file.seek(6), 6U);
        std::array<char, 16> buffer{};
        EXPECT_EQ(co_await file.read(buffer), 5U);
        EXPECT_EQ(std::string_view(buffer.data(), 5), "world");
        EXPECT_EQ(co_await file.read(buffer), 0U);
        EXPECT_TRUE(co_await file.sync());
        EXPECT_TRUE(co_await file.sync_data());
        EXPECT_TRUE(co_await file.close());
        EXPECT_FALSE(file.is_open());
        EXPECT_EQ((co_await file.read(buffer)).error(), std::errc::bad_file_descriptor);
        EXPECT_EQ(folder.content("file"), "hello world");
    };
    run(body());
}

TEST(File, OffsetsDoNotMoveThePosition) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        File file =
            (co_await File::open(folder.file("file", "0123456789"), {.read = true, .write = true}))
                .value();
        EXPECT_TRUE(co_await file.write_all_at(4, "ABC"));
        std::array<char, 20> buffer{};
        EXPECT_EQ(co_await file.read_at(3, buffer), 7U);
        EXPECT_EQ(std::string_view(buffer.data(), 7), "3ABC789");
        EXPECT_EQ(file.position(), 0U);
        EXPECT_EQ(co_await file.read_at(100, buffer), 0U);
    };
    run(body());
}

// With O_DIRECT, a read on the loop's thread waits for the device despite RWF_NOWAIT.
TEST(File, ADirectReadLeavesTheLoopToOtherTasks) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        Result<File> opened = co_await File::open(folder.file("file", std::string(4096, 'x')),
                                                  {.read = true, .direct = true});
        if (!opened) {
            EXPECT_EQ(opened.error(), std::errc::invalid_argument); // no O_DIRECT here
            co_return;
        }
        EXPECT_TRUE(co_await opened->sync()); // dirty pages would prevent the attempt
        // Not a local variable: a coroutine frame does not respect the alignment.
        alignas(4096) static std::array<char, 4096> buffer;
        std::string order;
        const auto read = [&]() -> Task<void> {
            EXPECT_EQ(co_await opened->read_at(0, buffer), buffer.size());
            order += "read ";
        };
        const auto other = [&]() -> Task<void> {
            order += "other ";
            co_return;
        };
        co_await all(read(), other());
        EXPECT_EQ(order, "other read ");
    };
    run(body());
}

// The terminal drivers of some kernels ignore RWF_NOWAIT: an attempt on the loop's thread would
// wait there.
TEST(File, AReadOfATerminalLeavesTheLoopToOtherTasks) {
    const auto body = []() -> Task<void> {
        const penstock::testing::Descriptor master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
        EXPECT_EQ(::grantpt(master.get()), 0);
        EXPECT_EQ(::unlockpt(master.get()), 0);
        std::array<char, 64> name{};
        EXPECT_EQ(::ptsname_r(master.get(), name.data(), name.size()), 0);
        const int terminal = ::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC);
        EXPECT_GE(terminal, 0);
        File file{penstock::OwnedDescriptor(terminal)};
        const auto read_line = [&file]() -> Task<std::string> {
            std::array<char, 16> buffer{};
            const Result<std::size_t> count = co_await file.read(buffer);
            co_return std::string(buffer.data(), count.value_or(0));
        };
        const auto write_line = [&master]() -> Task<bool> {
            co_return ::write(master.get(), "line\n", 5) == 5;
        };
        const auto [line, written] = co_await all(read_line(), write_line());
        EXPECT_TRUE(written);
        EXPECT_EQ(line, "line\n");
    };
    run(body());
}

TEST(File, ManyReadsAtOnceGetTheirOwnBytes) {
    const auto body = []() -> Task<void> {
        constexpr std::size_t block = 512;
        constexpr std::size_t blocks = 64;
        std::string content;
        std::mt19937 random(3);
        for (std::size_t i = 0; i < block * blocks; ++i) {
            content += static_cast<char>(random());
        }
        const TemporaryFolder folder;
        File file = (co_await File::open(folder.file("file", content))).value();
        std::vector<std::array<char, block>> buffers(blocks);
        const auto read_one = [&](std::size_t i) -> Task<Result<std::size_t>> {
            co_return co_await file.read_at(i * block, buffers[i]);
        };
        std::vector<Task<Result<std::size_t>>> reads;
        reads.reserve(blocks);
        for (std::size_t i = 0; i < blocks; ++i) {
            reads.push_back(read_one((i * 37) % blocks));
        }
        EXPECT_TRUE(co_await all(std::move(reads)));
        for (std::size_t i = 0; i < blocks; ++i) {
            EXPECT_EQ(std::string_view(buffers[i].data(), block),
                      std::string_view(content).substr(i * block, block));
        }
    };
    run(body());
}

TEST(File, IsOpenedAsTheOptionsSay) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string path = folder.file("file", "old");
        EXPECT_EQ((co_await File::open(path, {.write = true, .create_new = true})).error(),
                  std::errc::file_exists);
        {
            File log = (co_await File::open(path, OpenOptions::appending())).value();
            EXPECT_EQ(log.seek(0), 0U);
            EXPECT_TRUE(co_await log.write_all("+new"));
        }
        EXPECT_EQ(folder.content("file"), "old+new");
        EXPECT_TRUE(co_await File::open(path, OpenOptions::writing()));
        EXPECT_EQ(folder.content("file"), "");
        OpenOptions secret = OpenOptions::writing();
        secret.permissions = 0600;
        EXPECT_TRUE(co_await File::open(folder.path("secret"), secret));
        EXPECT_EQ((co_await penstock::fs::status(folder.path("secret")))->permissions, 0600U);
    };
    run(body());
}

TEST(File, ReportsTheKernelsErrors) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        EXPECT_EQ((co_await File::open(folder.path("missing"))).error(),
                  std::errc::no_such_file_or_directory);
        EXPECT_EQ((co_await File::open(folder.path("."), OpenOptions::writing())).error(),
                  std::errc::is_a_directory);
        EXPECT_EQ((co_await File::open(std::string_view("a\0b", 3))).error(),
                  std::errc::invalid_argument);
        File file = (co_await File::open(folder.file("file", "x"))).value();
        EXPECT_EQ((co_await file.write_all("y")).error(), std::errc::bad_file_descriptor);
        EXPECT_EQ((co_await file.truncate(0)).error(), std::errc::invalid_argument);
    };
    run(body());
}

TEST(File, ItsSizeCanBeChanged) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        File file =
            (co_await File::open(folder.file("file", "0123456789"), {.write = true})).value();
        EXPECT_TRUE(co_await file.truncate(4));
        EXPECT_EQ((co_await file.status())->size, 4U);
        EXPECT_TRUE(co_await file.truncate(6));
        EXPECT_EQ(folder.content("file"), std::string("0123\0\0", 6));
        const Result<> allocated = co_await file.allocate(0, 100);
        if (allocated) {
            EXPECT_EQ((co_await file.status())->size, 100U);
        } else {
            EXPECT_EQ(allocated.error(), std::errc::operation_not_supported);
        }
    };
    run(body());
}

TEST(File, ACancelledReadOfAPipeTakesNothing) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string path = folder.path("fifo");
        EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
        // Opened for reading and writing, so that opening does not wait.
        File fifo = (co_await File::open(path, {.read = true, .write = true})).value();
        std::array<char, 8> canary{};
        const Result<std::size_t> nothing =
            co_await penstock::timeout(std::chrono::milliseconds(5), fifo.read(canary));
        EXPECT_EQ(nothing.error(), std::errc::timed_out);
        EXPECT_TRUE(co_await fifo.write_all("later"));
        std::array<char, 8> buffer{};
        EXPECT_EQ(co_await fifo.read(buffer), 5U);
        EXPECT_EQ(canary, (std::array<char, 8>{}));
    };
    run(body());
}

TEST(File, NothingStartsInACancelledTask) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const auto late = [&]() -> Task<Result<File>> {
            EXPECT_FALSE(co_await penstock::sleep_for(std::chrono::hours(1)));
            co_return co_await File::open(folder.path("never"), OpenOptions::writing());
        };
        EXPECT_EQ((co_await penstock::timeout(std::chrono::milliseconds(1), late())).error(),
                  std::errc::timed_out);
        EXPECT_EQ((co_await penstock::fs::status(folder.path("never"))).error(),
                  std::errc::no_such_file_or_directory);
    };
    run(body());
}

TEST(File, ALoopsFirstOperationFailsWhereThereAreNoDescriptors) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string path = folder.file("file", "text");
        {
            const NoDescriptors none;
            EXPECT_EQ((co_await File::open(path)).error(), std::errc::too_many_files_open);
            EXPECT_EQ((co_await penstock::fs::status(path)).error(),
                      std::errc::too_many_files_open);
            EXPECT_EQ((co_await penstock::fs::read_text(path)).error(),
                      std::errc::too_many_files_open);
        }
        EXPECT_EQ(co_await penstock::fs::read_text(path), "text");
    };
    run(body());
}

bool is_open(int descriptor) {
    return ::fcntl(descriptor, F_GETFD) >= 0;
}

TEST(File, IsClosedInACancelledTask) {
    const TemporaryFolder folder;
    const std::string path = folder.file("file", "text");
    Canceller canceller;
    canceller.cancel();
    const auto program = [&]() -> Task<> {
        File file = expect(co_await File::open(path));
        const int descriptor = file.native_handle();
        EXPECT_TRUE(co_await penstock::cancellable(canceller, file.close()));
        EXPECT_FALSE(file.is_open());
        EXPECT_FALSE(is_open(descriptor));
    };
    run(program());
}

TEST(File, IsClosedIfTheCloseIsNeverAwaited) {
    const TemporaryFolder folder;
    const std::string path = folder.file("file", "text");
    const auto program = [&]() -> Task<> {
        File file = expect(co_await File::open(path));
        const int descriptor = file.native_handle();
        (void)file.close();
        EXPECT_FALSE(is_open(descriptor));
    };
    run(program());
}

} // namespace
