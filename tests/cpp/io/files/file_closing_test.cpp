// The end of each file engine: with operations in flight, in a forked child, and on another thread.

#include <penstock/io/event_loop.hpp>
#include <penstock/io/files/file_engine.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/child_process.hpp"
#include "support/descriptors.hpp"
#include "support/file_engines.hpp"

namespace {

using penstock::io::EventLoop;
using penstock::io::FileEngine;
using penstock::io::FileOperation;
using penstock::testing::complete;
using penstock::testing::Descriptor;
using penstock::testing::FileEngineNames;
using penstock::testing::FileEngines;
using penstock::testing::in_child_process;
using penstock::testing::OnEachFileEngine;
using penstock::testing::open_descriptors;
using penstock::testing::opened;
using penstock::testing::Pipe;
using penstock::testing::run;
using penstock::testing::TestOperation;

constexpr auto current = FileOperation::current_position;

/// The number of threads that engines, or the kernel on their behalf, have started in this process.
std::size_t engine_threads() {
    std::size_t count = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::string name;
        std::ifstream(task.path() / "comm") >> name;
        count += name.starts_with("penstock-file") || name.starts_with("iou-") ? 1U : 0U;
    }
    return count;
}

template <typename Kind> class FileClosing : public OnEachFileEngine<Kind> {
protected:
    /// Starts operations, some of which never end by themselves.
    void start_some() {
        ASSERT_TRUE(::mkfifo(fifo.c_str(), 0600) == 0 || errno == EEXIST);
        for (int i = 0; i < 20; ++i) {
            operations.push_back(std::make_unique<TestOperation>());
            TestOperation& operation = *operations.back();
            char* byte = &bytes[static_cast<std::size_t>(i)];
            switch (i % 5) {
            case 0:
                operation.to_read(pipe.out.get(), byte, 1, current);
                break;
            case 1:
                operation.to_write(file.get(), "x", 1, i);
                break;
            case 2:
                operation.to_fsync(file.get());
                break;
            case 3: // there is no other end
                operation.to_open(fifo.c_str(), O_RDONLY);
                break;
            default:
                operation.to_open(path.c_str(), O_RDONLY);
                break;
            }
            ASSERT_FALSE(this->engine->start(operation));
        }
    }

    /// Checks that each operation has ended once, and that opened descriptors are closed.
    void expect_all_done() {
        for (const auto& operation : operations) {
            ASSERT_EQ(operation->results.size(), 1U);
            const std::int64_t result = operation->results[0];
            if (operation->kind == FileOperation::Kind::read) {
                EXPECT_EQ(result, -ECANCELED);
            } else if (operation->kind == FileOperation::Kind::open && result >= 0) {
                ::close(static_cast<int>(result));
            } else {
                EXPECT_TRUE(result == -ECANCELED || result == 0 || result == 1) << result;
            }
        }
    }

    std::string path = this->folder.file("file", "content");
    std::string fifo = this->folder.path("fifo");
    Descriptor file = opened(path, O_RDWR);
    Pipe pipe;
    std::array<char, 20> bytes{};
    std::vector<std::unique_ptr<TestOperation>> operations;
};

TYPED_TEST_SUITE(FileClosing, FileEngines, FileEngineNames);

TYPED_TEST(FileClosing, OperationsInFlightAreCancelledAndDelivered) {
    this->start_some();
    this->engine->flush();
    this->engine->close();
    EXPECT_EQ(this->engine->in_flight(), 0U);
    this->expect_all_done();
}

TYPED_TEST(FileClosing, OperationsNotYetSubmittedAreCancelledAndDelivered) {
    this->start_some();
    this->engine.reset();
    this->expect_all_done();
}

TYPED_TEST(FileClosing, ClosedEngineRefusesOperations) {
    this->engine->close();
    this->engine->close();
    TestOperation read;
    char byte = 0;
    read.to_read(this->file.get(), &byte, 1, 0);
    EXPECT_EQ(this->engine->start(read), std::errc::operation_canceled);
    EXPECT_FALSE(read.in_flight());
    EXPECT_FALSE(this->engine->flush());
    this->engine->cancel(read);
    this->engine->cancel_all();
    this->engine->wait();
    EXPECT_EQ(this->engine->process(), 0U);
    EXPECT_TRUE(read.results.empty());
}

TYPED_TEST(FileClosing, OperationStartedByACompletionDuringCloseIsRefused) {
    char byte = 0;
    TestOperation again;
    again.to_read(this->file.get(), &byte, 1, 0);
    std::error_code error;
    TestOperation read([&](TestOperation&) { error = this->engine->start(again); });
    read.to_read(this->pipe.out.get(), &byte, 1, current);
    ASSERT_FALSE(this->engine->start(read));
    this->engine->close();
    EXPECT_EQ(error, std::errc::operation_canceled);
    EXPECT_TRUE(again.results.empty());
}

TYPED_TEST(FileClosing, DescriptorsAndThreadsAreReleased) {
    this->engine.reset();
    const std::size_t descriptors = open_descriptors();
    for (int round = 0; round < 20; ++round) {
        this->engine = this->make();
        this->operations.clear();
        this->start_some();
        this->engine->flush();
        this->engine.reset();
        this->expect_all_done();
        EXPECT_EQ(open_descriptors(), descriptors);
    }
    // The kernel's io_uring threads end a little later than their ring.
    while (engine_threads() != 0) {
        std::this_thread::yield();
    }
}

TYPED_TEST(FileClosing, ForkedChildDoesNotAffectTheParentsOperations) {
    char byte = 0;
    TestOperation read;
    read.to_read(this->pipe.out.get(), &byte, 1, current);
    ASSERT_FALSE(this->engine->start(read));
    this->engine->flush();
    const int child = in_child_process([&] {
        FileEngine& engine = *this->engine;
        TestOperation other;
        other.to_fsync(this->file.get());
        const bool refused = engine.start(other) == std::errc::owner_dead;
        engine.cancel(read);
        engine.cancel_all();
        const bool nothing = !engine.flush() && engine.process() == 0;
        engine.wait();
        this->engine.reset();
        bool works = true;
        if (penstock::testing::child_may_start_threads) {
            const auto fresh = TestFixture::make();
            works =
                run(*fresh, [&](auto& it) { it.to_write(this->file.get(), "child", 5, 0); }) == 5;
        }
        return refused && nothing && works && read.results.empty() ? 0 : 1;
    });
    EXPECT_EQ(child, 0);
    EXPECT_TRUE(read.results.empty());
    penstock::testing::write_byte(this->pipe.in);
    EXPECT_EQ(complete(*this->engine, read), 1);
    if (penstock::testing::child_may_start_threads) {
        EXPECT_EQ(this->folder.content("file"), "childnt");
    }
}

TYPED_TEST(FileClosing, EngineWorksWhenItsLoopRunsOnAnotherThread) {
    char byte = 0;
    TestOperation blocked;
    blocked.to_read(this->pipe.out.get(), &byte, 1, current);
    ASSERT_FALSE(this->engine->start(blocked));
    this->engine->flush();
    for (int turn = 0; turn < 3; ++turn) {
        std::thread([&] {
            EventLoop loop;
            ASSERT_FALSE(loop.attach(*this->engine));
            for (int i = 0; i < 5; ++i) {
                char content = 0;
                TestOperation read;
                read.to_read(this->file.get(), &content, 1, i);
                ASSERT_FALSE(this->engine->start(read));
                while (read.in_flight()) {
                    loop.run_once();
                }
                EXPECT_EQ(content, "content"[i]);
            }
            loop.detach_files();
        }).join();
    }
    penstock::testing::write_byte(this->pipe.in);
    EXPECT_EQ(complete(*this->engine, blocked), 1);
}

TYPED_TEST(FileClosing, OperationsOfAThreadThatHasEndedStillComplete) {
    // When a thread ends, the kernel cancels its submitted requests. The engine repeats them.
    char byte = 0;
    TestOperation blocked;
    blocked.to_read(this->pipe.out.get(), &byte, 1, current);
    std::thread([&] {
        ASSERT_FALSE(this->engine->start(blocked));
        this->engine->flush();
    }).join();
    penstock::testing::write_byte(this->pipe.in);
    EXPECT_EQ(complete(*this->engine, blocked), 1);
    EXPECT_EQ(byte, 'x');
}

} // namespace
