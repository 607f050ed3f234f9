// A file is closed, destroyed or moved while its operations are in flight. Its number stays in use
// until they have ended, so that none of them reaches the file that gets the number next.

#include <penstock/penstock.hpp>

#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "coro/support/tcp_pair.hpp"
#include "support/descriptors.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::Result;
using penstock::run;
using penstock::Scope;
using penstock::Task;
using penstock::fs::File;
using penstock::fs::OpenOptions;
using penstock::testing::connect_pair;
using penstock::testing::Descriptor;
using penstock::testing::expect;
using penstock::testing::opened;
using penstock::testing::TcpPair;
using penstock::testing::TemporaryFolder;
using penstock::testing::Watchdog;

bool is_open(int descriptor) {
    return ::fcntl(descriptor, F_GETFD) >= 0;
}

/// On io_uring where it is allowed, and on worker threads.
class FileLifetime : public ::testing::TestWithParam<const char*> {
protected:
    void SetUp() override { ::setenv("PENSTOCK_FILES", GetParam(), 1); }
    void TearDown() override { ::unsetenv("PENSTOCK_FILES"); }

    /// A FIFO opened for reading and writing, so that a read waits until somebody writes.
    static Task<std::unique_ptr<File>> open_fifo(std::string path) {
        EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
        co_return std::make_unique<File>(
            expect(co_await File::open(path, {.read = true, .write = true})));
    }

    const Watchdog watchdog;
    const TemporaryFolder folder;
};

INSTANTIATE_TEST_SUITE_P(OnEachEngine, FileLifetime, ::testing::Values("auto", "threads"),
                         [](const auto& engine) { return std::string(engine.param); });

TEST_P(FileLifetime, AWriteInFlightDoesNotReachTheNextFile) {
    const std::string secret(4096, 's');
    const auto program = [&]() -> Task<> {
        auto file = std::make_unique<File>(
            expect(co_await File::open(folder.path("own"), OpenOptions::writing())));
        std::optional<Descriptor> victim;
        const auto write = [](File& own, std::string_view text) -> Task<Result<>> {
            co_return co_await own.write_all(text);
        };
        expect(co_await penstock::with_scope([&](Scope& scope) -> Task<Result<>> {
            scope.spawn(write(*file, secret));
            expect(co_await penstock::yield()); // it has started
            file.reset();
            victim = opened(folder.path("victim"), O_RDWR | O_CREAT);
            co_return Result<>();
        }));
    };
    run(program());
    EXPECT_EQ(folder.content("victim"), "");
    EXPECT_EQ(folder.content("own"), secret);
}

TEST_P(FileLifetime, AReadInFlightDoesNotReachTheNextFile) {
    const auto program = [&]() -> Task<> {
        auto fifo = co_await open_fifo(folder.path("fifo"));
        const Descriptor writer = opened(folder.path("fifo"), O_RDWR);
        std::array<char, 100> buffer{};
        const auto read = [&](File& file) -> Task<> {
            const Result<std::size_t> count = co_await file.read(buffer);
            EXPECT_EQ(std::string_view(buffer.data(), count.value_or(0)), "own");
        };
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(read(*fifo));
            expect(co_await penstock::sleep_for(1ms)); // it waits
            fifo.reset();
            const Descriptor stranger = opened(folder.file("stranger", "secret"));
            expect(co_await penstock::sleep_for(1ms));
            EXPECT_EQ(::write(writer.get(), "own", 3), 3);
        });
    };
    run(program());
}

TEST_P(FileLifetime, ClosingWaitsForOperationsInFlight) {
    const auto program = [&]() -> Task<> {
        auto fifo = co_await open_fifo(folder.path("fifo"));
        const int number = fifo->native_handle();
        const Descriptor writer = opened(folder.path("fifo"), O_RDWR);
        std::vector<std::string> ended;
        std::array<char, 10> buffer{};
        const auto read = [&](File& file) -> Task<> {
            EXPECT_EQ(co_await file.read(buffer), 1U);
            ended.emplace_back("read");
        };
        const auto close = [&](File& file) -> Task<> {
            EXPECT_TRUE(co_await file.close());
            EXPECT_FALSE(is_open(number));
            ended.emplace_back("close");
        };
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(read(*fifo));
            expect(co_await penstock::yield());
            scope.spawn(close(*fifo));
            expect(co_await penstock::sleep_for(1ms));
            EXPECT_FALSE(fifo->is_open());
            EXPECT_TRUE(is_open(number));
            EXPECT_TRUE(ended.empty());
            write_byte(writer);
        });
        EXPECT_EQ(ended, (std::vector<std::string>{"read", "close"}));
    };
    run(program());
}

TEST_P(FileLifetime, AfterACancelledCloseTheLastOperationClosesTheFile) {
    const auto program = [&]() -> Task<> {
        auto fifo = co_await open_fifo(folder.path("fifo"));
        const int number = fifo->native_handle();
        const Descriptor writer = opened(folder.path("fifo"), O_RDWR);
        std::array<char, 10> buffer{};
        const auto read = [&](File& file) -> Task<> { EXPECT_EQ(co_await file.read(buffer), 1U); };
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(read(*fifo));
            expect(co_await penstock::yield());
            const Result<> closed = co_await penstock::timeout(1ms, fifo->close());
            EXPECT_EQ(closed.error(), std::errc::timed_out);
            EXPECT_FALSE(fifo->is_open());
            EXPECT_TRUE(is_open(number));
            write_byte(writer);
        });
        EXPECT_FALSE(is_open(number));
    };
    run(program());
}

TEST_P(FileLifetime, AFileMayBeMovedUnderItsOperations) {
    const auto program = [&]() -> Task<> {
        auto fifo = co_await open_fifo(folder.path("fifo"));
        const Descriptor writer = opened(folder.path("fifo"), O_RDWR);
        std::array<char, 10> buffer{};
        const auto read = [&](File& file) -> Task<> { EXPECT_EQ(co_await file.read(buffer), 1U); };
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(read(*fifo));
            expect(co_await penstock::yield());
            File moved = std::move(*fifo);
            fifo.reset();
            write_byte(writer);
            EXPECT_TRUE(co_await moved.close());
        });
    };
    run(program());
}

TEST_P(FileLifetime, AnOperationKeepsItsFileOpen) {
    const auto program = [&]() -> Task<> {
        auto file =
            std::make_unique<File>(expect(co_await File::open(folder.file("file", "text"))));
        std::array<char, 10> buffer{};
        File::Read read = file->read_at(0, buffer);
        file.reset();
        const Descriptor next = opened(folder.file("next", "other"));
        EXPECT_EQ(co_await std::move(read), 4U);
        EXPECT_EQ(std::string_view(buffer.data(), 4), "text");
    };
    run(program());
}

// A slow receiver: the next part is sent after other tasks have run.
TEST_P(FileLifetime, ASentFileStaysOpenUntilTheEnd) {
    std::string text(8'000'000, ' ');
    for (std::size_t i = 0; i < text.size(); ++i) {
        text[i] = static_cast<char>('a' + i / 1000 % 26);
    }
    const auto program = [&]() -> Task<> {
        auto file = std::make_unique<File>(expect(co_await File::open(folder.file("file", text))));
        TcpPair pair = co_await connect_pair();
        const auto send = [&]() -> Task<> {
            EXPECT_EQ(co_await pair.near.send_file(*file, 0, text.size()), text.size());
            expect(pair.near.shutdown());
        };
        std::string received;
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(send());
            expect(co_await penstock::yield());
            file.reset();
            const Descriptor stranger =
                opened(folder.file("stranger", std::string(text.size(), '!')));
            while (const Result<penstock::Chunk> chunk = co_await pair.far.receive()) {
                if (chunk->empty()) {
                    break;
                }
                received.append(reinterpret_cast<const char*>(chunk->data()), chunk->size());
            }
        });
        EXPECT_TRUE(received == text);
    };
    run(program());
}

// A worker thread closes a file whose close may write back.
TEST_P(FileLifetime, ALargeWrittenFileIsClosedOnAWorkerThread) {
    const std::string text(3'000'000, 'x');
    const auto program = [&]() -> Task<> {
        File file = expect(co_await File::open(folder.file("file", "old"), OpenOptions::writing()));
        const int number = file.native_handle();
        EXPECT_TRUE(co_await file.write_all(text));
        penstock::Canceller canceller;
        canceller.cancel();
        EXPECT_TRUE(co_await penstock::cancellable(canceller, file.close()));
        EXPECT_FALSE(is_open(number));
        EXPECT_TRUE(folder.content("file") == text);
        EXPECT_EQ(co_await penstock::fs::copy_file(folder.path("file"), folder.path("copy")),
                  text.size());
        EXPECT_TRUE(folder.content("copy") == text);
    };
    run(program());
}

TEST_P(FileLifetime, AnOffsetBeyondAllFilesIsInvalid) {
    const auto program = [&]() -> Task<> {
        const std::string path = folder.file("file", "text");
        File file = expect(co_await File::open(path, {.read = true, .write = true}));
        std::array<char, 10> buffer{};
        for (const std::uint64_t offset : {~std::uint64_t{0}, std::uint64_t{1} << 63}) {
            EXPECT_EQ((co_await file.read_at(offset, buffer)).error(), std::errc::invalid_argument);
            EXPECT_EQ((co_await file.write_all_at(offset, "!")).error(),
                      std::errc::invalid_argument);
            EXPECT_EQ((co_await file.truncate(offset)).error(), std::errc::invalid_argument);
            EXPECT_EQ((co_await file.allocate(offset, 1)).error(), std::errc::invalid_argument);
            EXPECT_EQ(file.seek(offset).error(), std::errc::invalid_argument);
        }
        EXPECT_EQ(file.position(), 0U);
        EXPECT_EQ(folder.content("file"), "text");
    };
    run(program());
}

} // namespace
