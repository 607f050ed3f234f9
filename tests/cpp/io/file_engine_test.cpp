// The seam between the loop and a file engine, with an engine that fakes the kernel.

#include <penstock/io/event_loop.hpp>
#include <penstock/io/file_engine.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/callbacks.hpp"
#include "support/descriptors.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::io::EventLoop;
using penstock::io::FileEngine;
using penstock::io::FileOperation;
using penstock::testing::SocketPair;
using penstock::testing::TestTimer;
using penstock::testing::TestWatch;
using penstock::testing::TestWork;
using penstock::testing::Watchdog;
namespace io = penstock::io;

/// Completes what was flushed, with each operation's length, when its descriptor in the poller says
/// so. It queues like a ring: nothing leaves before `flush`.
class FakeEngine : public FileEngine {
public:
    explicit FakeEngine(EventLoop& loop)
        : loop_(loop), completions_([this](TestWatch& self) { complete(self.fd); }) {
        EXPECT_FALSE(loop_.poller().add(completions_, ends_.near.get(), io::readable));
        loop_.attach(this);
    }
    ~FakeEngine() override {
        loop_.attach(nullptr);
        loop_.poller().remove(completions_);
    }
    FakeEngine(const FakeEngine&) = delete;
    FakeEngine& operator=(const FakeEngine&) = delete;

    [[nodiscard]] std::error_code start(FileOperation& operation) override {
        if (operation.fd < 0) {
            return {EBADF, std::system_category()};
        }
        started_.push_back(&operation);
        return {};
    }

    void cancel(FileOperation& operation) noexcept override { cancelled_ = &operation; }

    void flush() override {
        ++flushes;
        if (!started_.empty()) {
            ++submissions;
            write_byte(ends_.far);
        }
        submitted_.insert(submitted_.end(), started_.begin(), started_.end());
        started_.clear();
    }

    int flushes = 0;
    int submissions = 0;

private:
    void complete(int fd) {
        penstock::testing::drain(fd);
        const std::vector<FileOperation*> done = std::move(submitted_);
        submitted_.clear();
        for (FileOperation* operation : done) {
            const bool ended = operation == cancelled_;
            operation->on_complete(
                *operation, ended ? -ECANCELED : static_cast<std::int32_t>(operation->length));
        }
    }

    EventLoop& loop_;
    SocketPair ends_;
    TestWatch completions_;
    std::vector<FileOperation*> started_;
    std::vector<FileOperation*> submitted_;
    FileOperation* cancelled_ = nullptr;
};

struct Read : FileOperation {
    explicit Read(std::uint32_t bytes) : FileOperation(Kind::read, &finish) {
        fd = 0;
        length = bytes;
    }

    static void finish(FileOperation& operation, std::int32_t result) {
        static_cast<Read&>(operation).results.push_back(result);
    }

    std::vector<std::int32_t> results;
};

TEST(FileEngine, IsFlushedOnceAnIterationBeforeTheLoopMayBlock) {
    const Watchdog watchdog;
    EventLoop loop;
    FakeEngine engine(loop);
    Read read(100);
    TestWork work([&] { EXPECT_FALSE(engine.start(read)); });
    loop.schedule(work);
    loop.run_once();
    EXPECT_EQ(engine.flushes, 1);
    EXPECT_EQ(engine.submissions, 0) << "started after this iteration's flush";
    loop.run_once(); // blocks for ever unless the operation was submitted first
    EXPECT_EQ(engine.flushes, 2);
    EXPECT_EQ(read.results, (std::vector{100}));
}

TEST(FileEngine, OperationsOfOneBatchOfCallbacksLeaveInOneSubmission) {
    const Watchdog watchdog;
    EventLoop loop;
    FakeEngine engine(loop);
    std::vector<Read> reads(10, Read(7));
    std::vector<TestWork> work;
    work.reserve(reads.size());
    for (Read& read : reads) {
        work.emplace_back([&] { EXPECT_FALSE(engine.start(read)); });
    }
    for (TestWork& item : work) {
        loop.schedule(item);
    }
    loop.run_once();
    loop.run_once();
    EXPECT_EQ(engine.submissions, 1);
    EXPECT_TRUE(std::all_of(reads.begin(), reads.end(),
                            [](const Read& read) { return read.results == std::vector{7}; }));
}

TEST(FileEngine, OperationStartedByATimerIsSubmittedInTheNextIteration) {
    const Watchdog watchdog;
    EventLoop loop;
    FakeEngine engine(loop);
    Read read(1);
    TestTimer timer([&] { EXPECT_FALSE(engine.start(read)); });
    loop.timers().add(timer, 0);
    while (read.results.empty()) {
        loop.run_once();
    }
    EXPECT_EQ(engine.submissions, 1);
}

TEST(FileEngine, CancelledOperationCompletesOnce) {
    const Watchdog watchdog;
    EventLoop loop;
    FakeEngine engine(loop);
    Read read(1);
    ASSERT_FALSE(engine.start(read));
    engine.cancel(read);
    loop.run_once();
    loop.run_once(0);
    EXPECT_EQ(read.results, (std::vector{-ECANCELED}));
}

TEST(FileEngine, ErrorKnownAtOnceIsReturnedAndNotDelivered) {
    EventLoop loop;
    FakeEngine engine(loop);
    Read read(1);
    read.fd = -1;
    EXPECT_EQ(engine.start(read), std::errc::bad_file_descriptor);
    loop.run_once(0);
    EXPECT_TRUE(read.results.empty());
}

TEST(FileEngine, DetachedEngineIsFlushedNoMore) {
    EventLoop loop;
    const FakeEngine engine(loop);
    loop.attach(nullptr);
    loop.run_once(0);
    EXPECT_EQ(engine.flushes, 0);
}

TEST(FileOperation, IsNothingButItsDescription) {
    const FileOperation operation(FileOperation::Kind::fsync, [](FileOperation&, std::int32_t) {});
    EXPECT_EQ(operation.kind, FileOperation::Kind::fsync);
    EXPECT_EQ(operation.fd, -1);
    EXPECT_EQ(operation.buffer, nullptr);
    EXPECT_EQ(operation.length, 0U);
    EXPECT_EQ(operation.offset, 0U);
}

} // namespace
