// Each file operation on each engine: results, errors, short transfers.

#include <penstock/io/event_loop.hpp>
#include <penstock/io/files/file_engine.hpp>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/descriptors.hpp"
#include "support/file_engines.hpp"

namespace {

using penstock::io::EventLoop;
using penstock::io::FileOperation;
using penstock::testing::complete;
using penstock::testing::Descriptor;
using penstock::testing::FileEngineNames;
using penstock::testing::FileEngines;
using penstock::testing::OnEachFileEngine;
using penstock::testing::opened;
using penstock::testing::Pipe;
using penstock::testing::run;
using penstock::testing::TestOperation;

constexpr auto current = FileOperation::current_position;
constexpr auto whole = FileOperation::Extent::whole;

template <typename Kind> class FileOperations : public OnEachFileEngine<Kind> {};

TYPED_TEST_SUITE(FileOperations, FileEngines, FileEngineNames);

TYPED_TEST(FileOperations, OpenReadWriteClose) {
    const std::string path = this->folder.path("file");
    const auto fd =
        run(*this->engine, [&](auto& it) { it.to_open(path.c_str(), O_RDWR | O_CREAT, 0640); });
    ASSERT_GE(fd, 0);
    const auto file = static_cast<int>(fd);
    EXPECT_EQ(::fcntl(file, F_GETFD), FD_CLOEXEC);
    EXPECT_EQ(run(*this->engine, [&](auto& it) { it.to_write(file, "hello world", 11, 0); }), 11);
    std::string read(5, '\0');
    EXPECT_EQ(run(*this->engine, [&](auto& it) { it.to_read(file, read.data(), 5, 6); }), 5);
    EXPECT_EQ(read, "world");
    EXPECT_EQ(run(*this->engine, [&](auto& it) { it.to_read(file, read.data(), 5, 11); }), 0);
    EXPECT_EQ(run(*this->engine, [&](auto& it) { it.to_close(file); }), 0);
    EXPECT_EQ(::fcntl(file, F_GETFD), -1);
    struct stat status{};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0640U);
}

TYPED_TEST(FileOperations, TransfersAdvanceTheCurrentPosition) {
    const Descriptor file = opened(this->folder.file("file", "abcdef"), O_RDWR);
    std::string read(3, '\0');
    for (const char* expected : {"abc", "def"}) {
        EXPECT_EQ(
            run(*this->engine, [&](auto& it) { it.to_read(file.get(), read.data(), 3, current); }),
            3);
        EXPECT_EQ(read, expected);
    }
    EXPECT_EQ(run(*this->engine, [&](auto& it) { it.to_write(file.get(), "gh", 2, current); }), 2);
    EXPECT_EQ(this->folder.content("file"), "abcdefgh");
}

TYPED_TEST(FileOperations, PartsAreReadAndWritten) {
    const Descriptor file = opened(this->folder.file("file"), O_RDWR);
    std::string first = "penstock";
    std::string second = "files";
    std::array<iovec, 2> parts{iovec{first.data(), 8}, iovec{second.data(), 5}};
    EXPECT_EQ(run(*this->engine, [&](auto& it) { it.to_writev(file.get(), parts.data(), 2, 0); }),
              13);
    EXPECT_EQ(this->folder.content("file"), "penstockfiles");
    std::string a(4, '\0');
    std::string b(9, '\0');
    parts = {iovec{a.data(), 4}, iovec{b.data(), 9}};
    EXPECT_EQ(
        run(*this->engine, [&](auto& it) { it.to_readv(file.get(), parts.data(), 2, 0, whole); }),
        13);
    EXPECT_EQ(a + "|" + b, "pens|tockfiles");
}

TYPED_TEST(FileOperations, ShortTransfersContinueUntilComplete) {
    const auto engine = this->make({.max_transfer = 7});
    const Descriptor file = opened(this->folder.file("file"), O_RDWR);
    std::string data;
    for (int i = 0; i < 100; ++i) {
        data += std::to_string(i);
    }
    const auto size = static_cast<std::int64_t>(data.size());
    EXPECT_EQ(run(*engine, [&](auto& it) { it.to_write(file.get(), data.data(), data.size(), 0); }),
              size);
    EXPECT_EQ(this->folder.content("file"), data);
    std::string read(data.size() + 50, '\0');
    EXPECT_EQ(
        run(*engine, [&](auto& it) { it.to_read(file.get(), read.data(), read.size(), 0, whole); }),
        size);
    EXPECT_EQ(read.substr(0, data.size()), data);
    EXPECT_EQ(run(*engine, [&](auto& it) { it.to_read(file.get(), read.data(), 50, 0); }), 7)
        << "a plain read transfers what one call does";
}

TYPED_TEST(FileOperations, PartsOfAPipeArriveInPieces) {
    const Pipe pipe;
    std::string a(3, '\0');
    std::string b(5, '\0');
    std::array<iovec, 2> parts{iovec{a.data(), 3}, iovec{b.data(), 5}};
    TestOperation read;
    read.to_readv(pipe.out.get(), parts.data(), 2, current, whole);
    ASSERT_FALSE(this->engine->start(read));
    this->engine->flush();
    for (const char* piece : {"ab", "cdef", "gh"}) {
        EXPECT_EQ(::write(pipe.in.get(), piece, std::string(piece).size()),
                  static_cast<ssize_t>(std::string(piece).size()));
    }
    EXPECT_EQ(complete(*this->engine, read), 8);
    EXPECT_EQ(a + "|" + b, "abc|defgh");
}

TYPED_TEST(FileOperations, PipeIgnoresThePosition) {
    const Pipe pipe;
    EXPECT_EQ(run(*this->engine, [&](auto& it) { it.to_write(pipe.in.get(), "xyz", 3, 0); }), 3);
    std::string read(3, '\0');
    EXPECT_EQ(run(*this->engine, [&](auto& it) { it.to_read(pipe.out.get(), read.data(), 3, 0); }),
              3);
    EXPECT_EQ(read, "xyz");
}

TYPED_TEST(FileOperations, NonBlockingPipeIsAwaitedExceptWithNowait) {
    const Pipe pipe;
    ASSERT_EQ(::fcntl(pipe.out.get(), F_SETFL, O_NONBLOCK), 0);
    char byte = 0;
    EXPECT_EQ(run(*this->engine,
                  [&](auto& it) {
                      it.to_read(pipe.out.get(), &byte, 1, current, FileOperation::Extent::once,
                                 RWF_NOWAIT);
                  }),
              -EAGAIN);
    TestOperation read;
    read.to_read(pipe.out.get(), &byte, 1, current);
    ASSERT_FALSE(this->engine->start(read));
    this->engine->flush();
    penstock::testing::write_byte(pipe.in);
    EXPECT_EQ(complete(*this->engine, read), 1);
}

TYPED_TEST(FileOperations, ErrorsAreThoseOfTheSystemCall) {
    auto& engine = *this->engine;
    const std::string nothing = this->folder.path("nothing");
    const std::string file = this->folder.file("file");
    const std::string below = file + "/x";
    const std::string folder = this->folder.path("");
    char byte = 0;
    struct statx status{};
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_open(nothing.c_str(), O_RDONLY); }), -ENOENT);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_open(below.c_str(), O_RDONLY); }), -ENOTDIR);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_open(folder.c_str(), O_RDWR); }), -EISDIR);
    EXPECT_EQ(
        run(engine, [&](auto& it) { it.to_open(file.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600); }),
        -EEXIST);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_close(-1); }), -EBADF);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_read(-1, &byte, 1, 0); }), -EBADF);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_fsync(-1); }), -EBADF);
    const Descriptor read_only = opened(file);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_write(read_only.get(), "x", 1, 0); }), -EBADF);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_truncate(read_only.get(), 0); }), -EINVAL);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_stat(nothing.c_str(), status); }), -ENOENT);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_rename(nothing.c_str(), file.c_str()); }), -ENOENT);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_unlink(nothing.c_str()); }), -ENOENT);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_unlink(file.c_str(), AT_REMOVEDIR); }), -ENOTDIR);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_make_directory(file.c_str(), 0700); }), -EEXIST);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_link(nothing.c_str(), below.c_str()); }), -ENOENT);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_read_file(nothing.c_str(), &byte, 1); }), -ENOENT);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_read_file(folder.c_str(), &byte, 1); }), -EISDIR);
    EXPECT_EQ(run(engine, [](auto&) {}), -EINVAL) << "an operation without a kind";
}

TYPED_TEST(FileOperations, FoldersLinksAndRenames) {
    auto& engine = *this->engine;
    const std::string folder = this->folder.path("folder");
    const std::string one = folder + "/one";
    const std::string two = folder + "/two";
    const std::string three = folder + "/three";
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_make_directory(folder.c_str(), 0700); }), 0);
    this->folder.fill("folder/one", "1");
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_link(one.c_str(), two.c_str()); }), 0);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_make_symlink("two", three.c_str()); }), 0);
    EXPECT_EQ(this->folder.content("folder/three"), "1");
    EXPECT_EQ(
        run(engine, [&](auto& it) { it.to_rename(one.c_str(), two.c_str(), RENAME_NOREPLACE); }),
        -EEXIST);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_unlink(two.c_str()); }), 0);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_rename(one.c_str(), two.c_str()); }), 0);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_unlink(folder.c_str(), AT_REMOVEDIR); }),
              -ENOTEMPTY);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_unlink(three.c_str()); }), 0);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_unlink(two.c_str()); }), 0);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_unlink(folder.c_str(), AT_REMOVEDIR); }), 0);
    EXPECT_NE(::access(folder.c_str(), F_OK), 0);
}

TYPED_TEST(FileOperations, PathsAreRelativeToAFolder) {
    this->folder.fill("file", "content");
    const Descriptor folder = opened(this->folder.path(""), O_RDONLY | O_DIRECTORY);
    const auto fd =
        run(*this->engine, [&](auto& it) { it.to_open("file", O_RDONLY, 0, folder.get()); });
    ASSERT_GE(fd, 0);
    const Descriptor file(static_cast<int>(fd));
    EXPECT_EQ(run(*this->engine,
                  [&](auto& it) { it.to_rename("file", "other", 0, folder.get(), folder.get()); }),
              0);
    EXPECT_EQ(this->folder.content("other"), "content");
}

TYPED_TEST(FileOperations, StatTakesPathsAndDescriptors) {
    const std::string path = this->folder.file("file", "12345");
    const Descriptor file = opened(path);
    struct statx by_path{};
    struct statx by_descriptor{};
    EXPECT_EQ(run(*this->engine, [&](auto& it) { it.to_stat(path.c_str(), by_path); }), 0);
    EXPECT_EQ(run(*this->engine,
                  [&](auto& it) {
                      it.to_stat("", by_descriptor, AT_EMPTY_PATH, STATX_BASIC_STATS, file.get());
                  }),
              0);
    EXPECT_EQ(by_path.stx_size, 5U);
    EXPECT_EQ(by_path.stx_ino, by_descriptor.stx_ino);
}

TYPED_TEST(FileOperations, SizesAndSyncing) {
    auto& engine = *this->engine;
    const Descriptor file = opened(this->folder.file("file", "0123456789"), O_RDWR);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_truncate(file.get(), 4); }), 0);
    EXPECT_EQ(this->folder.content("file"), "0123");
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_allocate(file.get(), 0, 0, 6); }), 0);
    EXPECT_EQ(this->folder.content("file"), std::string("0123\0\0", 6));
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_advise(file.get(), 0, 0, POSIX_FADV_DONTNEED); }),
              0);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_fsync(file.get()); }), 0);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_fdatasync(file.get()); }), 0);
}

TYPED_TEST(FileOperations, BytesAreCopiedInTheKernel) {
    auto& engine = *this->engine;
    const Descriptor from = opened(this->folder.file("from", "0123456789"));
    const Descriptor to = opened(this->folder.file("to", "----------"), O_RDWR);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_copy_range(from.get(), 2, to.get(), 5, 3); }), 3);
    EXPECT_EQ(this->folder.content("to"), "-----234--");
    const Pipe pipe;
    EXPECT_EQ(
        run(engine, [&](auto& it) { it.to_splice(from.get(), 7, pipe.in.get(), current, 3); }), 3);
    EXPECT_EQ(run(engine, [&](auto& it) { it.to_splice(pipe.out.get(), current, to.get(), 0, 3); }),
              3);
    EXPECT_EQ(this->folder.content("to"), "789--234--");
    const auto cloned = run(engine, [&](auto& it) { it.to_clone(from.get(), to.get()); });
    EXPECT_TRUE(cloned == 0 || cloned == -EOPNOTSUPP || cloned == -ENOTTY) << cloned;
}

TYPED_TEST(FileOperations, CallRunsOnAnotherThread) {
    struct Call : TestOperation {
        pthread_t thread{};
    };
    Call call;
    call.to_call([](FileOperation& operation) {
        static_cast<Call&>(operation).thread = pthread_self();
        return std::int64_t{42};
    });
    ASSERT_FALSE(this->engine->start(call));
    EXPECT_EQ(complete(*this->engine, call), 42);
    EXPECT_EQ(pthread_equal(call.thread, pthread_self()), 0);
}

/// Reads a whole file into a buffer of `room` bytes at first.
struct ReadFile : TestOperation {
    ReadFile(std::string file, std::size_t room) : path_(std::move(file)), memory(room, '\0') {
        to_read_file(path_.c_str(), memory.data(), room,
                     [](FileOperation& operation, std::size_t size) {
                         auto& self = static_cast<ReadFile&>(operation);
                         ++self.growths;
                         self.memory.resize(size);
                         return static_cast<void*>(self.memory.data());
                     });
    }

private:
    std::string path_;

public:
    std::string memory;
    int growths = 0;
};

TYPED_TEST(FileOperations, WholeFilesOfEachSizeAreRead) {
    for (const std::size_t size : {0U, 1U, 4095U, 4096U, 4097U, 1000000U}) {
        std::string content;
        while (content.size() < size) {
            content += std::to_string(content.size()) + ",";
        }
        content.resize(size);
        const std::string path = this->folder.file("file", content);
        for (const std::size_t room : {0U, 1U, 4096U, 1048576U}) {
            ReadFile read(path, room);
            ASSERT_FALSE(this->engine->start(read));
            EXPECT_EQ(complete(*this->engine, read), static_cast<std::int64_t>(size));
            EXPECT_TRUE(read.memory.substr(0, size) == content) << size << " into " << room;
            EXPECT_EQ(read.growths, room >= size ? 0 : 1) << size << " into " << room;
        }
    }
}

TYPED_TEST(FileOperations, WholeFileWithoutASizeIsRead) {
    ReadFile read("/proc/self/status", 16);
    ASSERT_FALSE(this->engine->start(read));
    const auto size = complete(*this->engine, read);
    ASSERT_GT(size, 100);
    EXPECT_EQ(read.memory.substr(0, 5), "Name:");
    EXPECT_EQ(read.memory[static_cast<std::size_t>(size) - 1], '\n');
}

TYPED_TEST(FileOperations, WholeFileThatDoesNotFitIsRefused) {
    const std::string path = this->folder.file("file", "1234567");
    std::string memory(6, '\0');
    const std::size_t before = penstock::testing::open_descriptors();
    EXPECT_EQ(run(*this->engine,
                  [&](auto& it) { it.to_read_file(path.c_str(), memory.data(), memory.size()); }),
              -EFBIG);
    EXPECT_EQ(run(*this->engine,
                  [&](auto& it) {
                      it.to_read_file(path.c_str(), memory.data(), memory.size(),
                                      [](FileOperation&, std::size_t) -> void* { return nullptr; });
                  }),
              -ENOMEM);
    EXPECT_EQ(penstock::testing::open_descriptors(), before);
}

TYPED_TEST(FileOperations, CompleteOnAnEventLoop) {
    EventLoop loop;
    ASSERT_FALSE(loop.attach(*this->engine));
    const Descriptor file = opened(this->folder.file("file", "abcdef"));
    std::vector<char> bytes(6);
    std::vector<std::unique_ptr<TestOperation>> reads;
    std::size_t done = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        reads.push_back(std::make_unique<TestOperation>([&](TestOperation&) { ++done; }));
        reads.back()->to_read(file.get(), &bytes[i], 1, static_cast<std::int64_t>(i));
        ASSERT_FALSE(this->engine->start(*reads.back()));
    }
    EXPECT_EQ(this->engine->in_flight(), bytes.size());
    while (done < bytes.size()) {
        loop.run_once();
    }
    EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "abcdef");
    EXPECT_EQ(this->engine->in_flight(), 0U);
    loop.detach_files();
}

TYPED_TEST(FileOperations, OperationIsStartedAgainInItsCompletion) {
    const Descriptor file = opened(this->folder.file("file", "abcdef"));
    std::string all;
    char byte = 0;
    TestOperation read([&](TestOperation& self) {
        if (self.results.back() == 1) {
            all += byte;
            self.to_read(file.get(), &byte, 1, current);
            EXPECT_FALSE(this->engine->start(self));
        }
    });
    read.to_read(file.get(), &byte, 1, current);
    ASSERT_FALSE(this->engine->start(read));
    EXPECT_EQ(this->engine->start(read), std::errc::device_or_resource_busy);
    EXPECT_EQ(complete(*this->engine, read), 0);
    EXPECT_EQ(all, "abcdef");
}

TYPED_TEST(FileOperations, OperationIsDestroyedInItsCompletion) {
    const Descriptor file = opened(this->folder.file("file", "x"));
    char byte = 0;
    bool destroyed = false;
    auto* read = new TestOperation([&](TestOperation& self) {
        delete &self;
        destroyed = true;
    });
    read->to_read(file.get(), &byte, 1, 0);
    ASSERT_FALSE(this->engine->start(*read));
    while (this->engine->in_flight() != 0) {
        this->engine->wait();
        this->engine->process();
    }
    EXPECT_TRUE(destroyed);
}

TYPED_TEST(FileOperations, OpenOfAFifoCompletesWhenBothEndsAreOpen) {
    const std::string path = this->folder.path("fifo");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    for (const int flags : {O_RDONLY, O_WRONLY}) {
        TestOperation open;
        open.to_open(path.c_str(), flags);
        ASSERT_FALSE(this->engine->start(open));
        // It starts before this one, and each has a thread.
        const std::string folder = this->folder.path(flags == O_RDONLY ? "a" : "b");
        run(*this->engine, [&](auto& it) { it.to_make_directory(folder.c_str(), 0700); });
        EXPECT_TRUE(open.in_flight());
        int other = -1;
        while (other < 0) { // no reader there yet: ENXIO
            other = ::open(path.c_str(), O_NONBLOCK | (flags == O_RDONLY ? O_WRONLY : O_RDONLY));
        }
        const Descriptor other_end(other);
        const auto fd = complete(*this->engine, open);
        ASSERT_GE(fd, 0);
        const Descriptor end(static_cast<int>(fd));
        EXPECT_EQ(::fcntl(end.get(), F_GETFL) & (O_ACCMODE | O_NONBLOCK), flags);
        const bool reads = flags == O_RDONLY;
        char byte = 0;
        EXPECT_EQ(::write(reads ? other_end.get() : end.get(), "x", 1), 1);
        EXPECT_EQ(::read(reads ? end.get() : other_end.get(), &byte, 1), 1);
        EXPECT_EQ(byte, 'x');
    }
}

} // namespace
