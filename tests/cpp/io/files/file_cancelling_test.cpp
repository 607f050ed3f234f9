// The cancellation of file operations on each engine: an operation ends exactly once, writes
// nothing after its end, and leaves nothing open.

#include <penstock/io/files/file_engine.hpp>

#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/descriptors.hpp"
#include "support/file_engines.hpp"

namespace {

using penstock::io::FileOperation;
using penstock::testing::complete;
using penstock::testing::complete_all;
using penstock::testing::Descriptor;
using penstock::testing::FileEngineNames;
using penstock::testing::FileEngines;
using penstock::testing::OnEachFileEngine;
using penstock::testing::open_descriptors;
using penstock::testing::opened;
using penstock::testing::Pipe;
using penstock::testing::run;
using penstock::testing::TestOperation;

constexpr auto current = FileOperation::current_position;
constexpr auto whole = FileOperation::Extent::whole;
const std::vector<std::int64_t> only_cancelled{-ECANCELED};

template <typename Kind> class FileCancelling : public OnEachFileEngine<Kind> {};

TYPED_TEST_SUITE(FileCancelling, FileEngines, FileEngineNames);

TYPED_TEST(FileCancelling, ReadOfAPipeEndsAndKeepsItsBufferAndThePipeUnchanged) {
    const Pipe pipe;
    std::string canary(64, '#');
    TestOperation read;
    read.to_read(pipe.out.get(), canary.data(), canary.size(), current);
    ASSERT_FALSE(this->engine->start(read));
    this->engine->flush();
    EXPECT_TRUE(read.in_flight());
    this->engine->cancel(read);
    this->engine->cancel(read);
    EXPECT_TRUE(read.results.empty()) << "cancel itself delivers nothing";
    complete(*this->engine, read);
    EXPECT_EQ(read.results, only_cancelled);
    ASSERT_EQ(::write(pipe.in.get(), "data", 4), 4);
    // This operation ends after all earlier work of the engine.
    std::string later(4, '\0');
    EXPECT_EQ(run(*this->engine, [&](auto& it) { it.to_read(pipe.out.get(), later.data(), 4, 0); }),
              4);
    EXPECT_EQ(later, "data");
    EXPECT_EQ(canary, std::string(64, '#'));
    EXPECT_EQ(read.results, only_cancelled);
}

TYPED_TEST(FileCancelling, WriteToAFullPipeEndsAndReportsTheBytesWritten) {
    const Pipe pipe;
    const std::string data(std::size_t{1} << 20, 'x');
    TestOperation write;
    write.to_write(pipe.in.get(), data.data(), data.size(), current);
    ASSERT_FALSE(this->engine->start(write));
    this->engine->flush();
    // A byte can be read once the pipe's content has arrived.
    char byte = 0;
    ASSERT_EQ(::read(pipe.out.get(), &byte, 1), 1);
    this->engine->cancel(write);
    complete(*this->engine, write);
    EXPECT_EQ(write.results, only_cancelled);
    ASSERT_EQ(::fcntl(pipe.out.get(), F_SETFL, O_NONBLOCK), 0);
    EXPECT_EQ(penstock::testing::drain(pipe.out.get()) + 1, write.transferred);
    EXPECT_LT(write.transferred, data.size());
}

TYPED_TEST(FileCancelling, PartOfAWholeReadIsReported) {
    const Pipe pipe;
    std::string data(8, '#');
    TestOperation read;
    read.to_read(pipe.out.get(), data.data(), data.size(), current, whole);
    ASSERT_FALSE(this->engine->start(read));
    this->engine->flush();
    ASSERT_EQ(::write(pipe.in.get(), "abc", 3), 3);
    int waiting = 3; // of FIONREAD; 0 once the engine has read them
    while (waiting != 0) {
        this->engine->flush();
        this->engine->process();
        ASSERT_EQ(::ioctl(pipe.out.get(), FIONREAD, &waiting), 0);
    }
    this->engine->cancel(read);
    complete(*this->engine, read);
    EXPECT_EQ(read.results, only_cancelled);
    EXPECT_EQ(read.transferred, 3U);
    EXPECT_EQ(data, "abc#####");
}

TYPED_TEST(FileCancelling, OperationNotYetSubmittedEndsOnce) {
    const Descriptor file = opened(this->folder.file("file", "abc"));
    char byte = '#';
    TestOperation read;
    read.to_read(file.get(), &byte, 1, 0);
    ASSERT_FALSE(this->engine->start(read));
    this->engine->cancel(read);
    complete(*this->engine, read);
    ASSERT_EQ(read.results.size(), 1U);
    EXPECT_TRUE(read.results[0] == -ECANCELED || (read.results[0] == 1 && byte == 'a'));
}

TYPED_TEST(FileCancelling, OperationsBehindBlockedOnesEndToo) {
    const auto engine = this->make({.max_threads = 2, .ring_entries = 4});
    const Pipe pipe;
    std::array<char, 64> bytes{};
    std::vector<std::unique_ptr<TestOperation>> reads;
    for (char& byte : bytes) {
        reads.push_back(std::make_unique<TestOperation>());
        reads.back()->to_read(pipe.out.get(), &byte, 1, current);
        ASSERT_FALSE(engine->start(*reads.back()));
    }
    engine->flush();
    TestOperation& last = *reads.back();
    engine->cancel(last);
    complete(*engine, last);
    EXPECT_EQ(last.results, only_cancelled);
    EXPECT_EQ(engine->in_flight(), reads.size() - 1);
    engine->cancel_all();
    complete_all(*engine);
    for (const auto& read : reads) {
        EXPECT_EQ(read->results, only_cancelled);
    }
    penstock::testing::write_byte(pipe.in);
    EXPECT_EQ(run(*engine, [&](auto& it) { it.to_read(pipe.out.get(), bytes.data(), 1, 0); }), 1)
        << "the engine still works";
}

TYPED_TEST(FileCancelling, CompletionMayCancelAnotherOperation) {
    const Pipe pipe;
    std::array<char, 2> bytes{};
    TestOperation second;
    TestOperation first([&](TestOperation&) { this->engine->cancel(second); });
    first.to_read(pipe.out.get(), &bytes[0], 1, current);
    second.to_read(pipe.out.get(), &bytes[1], 1, current);
    ASSERT_FALSE(this->engine->start(first) || this->engine->start(second));
    this->engine->flush();
    this->engine->cancel(first);
    complete_all(*this->engine);
    EXPECT_EQ(first.results, only_cancelled);
    EXPECT_EQ(second.results, only_cancelled);
}

TYPED_TEST(FileCancelling, CancelledOperationMayBeStartedAgain) {
    const Pipe pipe;
    char byte = 0;
    TestOperation read;
    read.to_read(pipe.out.get(), &byte, 1, current);
    for (int round = 0; round < 100; ++round) {
        ASSERT_FALSE(this->engine->start(read));
        if (round % 2 == 0) {
            this->engine->flush();
        }
        this->engine->cancel(read);
        EXPECT_EQ(complete(*this->engine, read), -ECANCELED);
    }
    ASSERT_FALSE(this->engine->start(read));
    penstock::testing::write_byte(pipe.in);
    EXPECT_EQ(complete(*this->engine, read), 1);
    EXPECT_EQ(byte, 'x');
}

TYPED_TEST(FileCancelling, OpenNeverLeavesADescriptor) {
    const std::string path = this->folder.file("file");
    const std::size_t before = open_descriptors();
    for (int round = 0; round < 200; ++round) {
        TestOperation open;
        open.to_open(path.c_str(), O_RDWR | (round % 3 == 0 ? O_CREAT : 0), 0600);
        ASSERT_FALSE(this->engine->start(open));
        if (round % 2 == 0) {
            this->engine->flush(); // may have opened it by now
        }
        this->engine->cancel(open);
        complete(*this->engine, open);
        EXPECT_EQ(open.results, only_cancelled);
    }
    // Worker threads keep descriptors of their own open, which the first rounds may have created.
    this->engine->close();
    EXPECT_LE(open_descriptors(), before);
}

TYPED_TEST(FileCancelling, CloseIsNeverCancelled) {
    for (int round = 0; round < 100; ++round) {
        const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
        ASSERT_GE(fd, 0);
        TestOperation close;
        close.to_close(fd);
        ASSERT_FALSE(this->engine->start(close));
        if (round % 2 == 0) {
            this->engine->flush();
        }
        this->engine->cancel(close);
        EXPECT_EQ(complete(*this->engine, close), 0);
        EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
    }
}

TYPED_TEST(FileCancelling, WholeReadLeavesNoDescriptorOpen) {
    const std::string path = this->folder.file("file", std::string(100000, 'x'));
    const std::size_t before = open_descriptors();
    for (int round = 0; round < 200; ++round) {
        struct Whole : TestOperation {
            std::string memory;
        } read;
        read.to_read_file(path.c_str(), nullptr, 0, [](FileOperation& operation, std::size_t size) {
            auto& self = static_cast<Whole&>(operation);
            self.memory.resize(size);
            return static_cast<void*>(self.memory.data());
        });
        ASSERT_FALSE(this->engine->start(read));
        for (int step = 0; step < round % 4; ++step) {
            this->engine->flush();
            this->engine->process();
        }
        this->engine->cancel(read);
        complete_all(*this->engine);
        ASSERT_EQ(read.results.size(), 1U);
        EXPECT_TRUE(read.results[0] == -ECANCELED || read.results[0] == 100000) << read.results[0];
    }
    this->engine->close();
    EXPECT_LE(open_descriptors(), before);
}

TYPED_TEST(FileCancelling, WholeReadOfAFifoEnds) {
    const std::string path = this->folder.path("fifo");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const Descriptor other_end = opened(path, O_RDWR);
    std::string memory(100, '#');
    TestOperation read;
    read.to_read_file(path.c_str(), memory.data(), memory.size());
    ASSERT_FALSE(this->engine->start(read));
    this->engine->flush();
    this->engine->cancel(read);
    complete(*this->engine, read);
    EXPECT_EQ(read.results, only_cancelled);
    EXPECT_EQ(memory, std::string(100, '#'));
}

// A FIFO that was opened by name does not support RWF_NOWAIT: the write begins when there is room.
TYPED_TEST(FileCancelling, WriteThatFillsAFifoEnds) {
    const std::string path = this->folder.path("fifo");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const Descriptor fifo = opened(path, O_RDWR);
    const std::string data(1 << 20, 'x');
    TestOperation write;
    write.to_write(fifo.get(), data.data(), data.size(), current);
    ASSERT_FALSE(this->engine->start(write));
    this->engine->flush();
    int there = 0;
    while (there == 0) {
        ASSERT_EQ(::ioctl(fifo.get(), FIONREAD, &there), 0);
        this->engine->process();
    }
    this->engine->cancel(write);
    complete(*this->engine, write);
    EXPECT_EQ(write.results, only_cancelled);
}

/// How many descriptors of a file are open.
std::size_t descriptors_of(const std::string& path) {
    const std::filesystem::path file = std::filesystem::canonical(path);
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone; // that of the iterator itself
        count += std::filesystem::read_symlink(entry.path(), gone) == file ? 1U : 0U;
    }
    return count;
}

// Repeated: the cancellation may come before the thread waits.
TYPED_TEST(FileCancelling, OpeningAFifoWithoutAnotherEndIsCancelled) {
    const std::string path = this->folder.path("fifo");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const std::size_t before = open_descriptors();
    for (int round = 0; round < 100; ++round) {
        char byte = 0;
        TestOperation open;
        TestOperation read;
        open.to_open(path.c_str(), round % 2 == 0 ? O_RDONLY : O_WRONLY);
        read.to_read_file(path.c_str(), &byte, 1);
        read.may_block_indefinitely = true;
        TestOperation& operation = round % 4 < 2 ? open : read;
        ASSERT_FALSE(this->engine->start(operation));
        this->engine->flush();
        if (round % 3 != 0) {
            std::this_thread::yield();
        }
        this->engine->cancel(operation);
        complete(*this->engine, operation);
        ASSERT_EQ(operation.results, only_cancelled);
    }
    EXPECT_EQ(descriptors_of(path), 0U);
    this->engine->close(); // with those of its own
    EXPECT_LE(open_descriptors(), before);
}

// More of them than threads: a cancelled operation must not occupy a thread.
TYPED_TEST(FileCancelling, CancelledOpensOfFifosFreeTheirThreads) {
    const std::string path = this->folder.path("fifo");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    std::vector<std::unique_ptr<TestOperation>> opens;
    for (int i = 0; i < 100; ++i) {
        opens.push_back(std::make_unique<TestOperation>());
        opens.back()->to_open(path.c_str(), O_RDONLY);
        ASSERT_FALSE(this->engine->start(*opens.back()));
        this->engine->flush();
    }
    for (const auto& open : opens) {
        this->engine->cancel(*open);
    }
    TestOperation directory;
    const std::string made = this->folder.path("directory");
    directory.to_make_directory(made.c_str(), 0700);
    ASSERT_FALSE(this->engine->start(directory));
    EXPECT_EQ(complete(*this->engine, directory), 0);
    complete_all(*this->engine);
    for (const auto& open : opens) {
        EXPECT_EQ(open->results, only_cancelled);
    }
}

TYPED_TEST(FileCancelling, CancelOfAnOperationThatIsNotInFlightDoesNothing) {
    const Descriptor file = opened(this->folder.file("file", "abc"));
    char byte = 0;
    TestOperation read;
    read.to_read(file.get(), &byte, 1, 0);
    this->engine->cancel(read);
    EXPECT_TRUE(read.results.empty());
    ASSERT_FALSE(this->engine->start(read));
    EXPECT_EQ(complete(*this->engine, read), 1);
    this->engine->cancel(read);
    this->engine->process();
    EXPECT_EQ(read.results.size(), 1U);
}

} // namespace
