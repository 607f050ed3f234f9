// The interface between the loop and a file engine, with an engine that simulates the kernel.

#include <penstock/io/event_loop.hpp>
#include <penstock/io/files/choose_file_engine.hpp>
#include <penstock/io/files/file_engine.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
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
using penstock::testing::TestWork;
using penstock::testing::Watchdog;
namespace io = penstock::io;

/// Completes the flushed operations, with each operation's length as its result, when its
/// descriptor is readable. Like a ring, it submits nothing before `flush`.
class FakeEngine : public FileEngine {
public:
    explicit FakeEngine(EventLoop& loop) : loop_(loop) { EXPECT_FALSE(loop_.attach(*this)); }
    ~FakeEngine() override { loop_.detach_files(); }
    FakeEngine(const FakeEngine&) = delete;
    FakeEngine& operator=(const FakeEngine&) = delete;

    [[nodiscard]] std::string_view name() const noexcept override { return "fake"; }
    [[nodiscard]] int descriptor() const noexcept override { return ends_.near.get(); }
    [[nodiscard]] bool in_child() const noexcept override { return false; }
    [[nodiscard]] std::size_t in_flight() const noexcept override {
        return started_.size() + submitted_.size();
    }
    void interrupt() noexcept override { interrupted_ = true; }
    void cancel_all() noexcept override {}
    void wait() noexcept override {}
    void close() noexcept override {}
    std::size_t process() override { return deliver(); }

    [[nodiscard]] std::error_code start(FileOperation& operation) override {
        if (operation.fd < 0) {
            return {EBADF, std::system_category()};
        }
        started_.push_back(&operation);
        return {};
    }

    void cancel(FileOperation& operation) noexcept override { cancelled_ = &operation; }
    bool withdraw(FileOperation& /*operation*/) noexcept override { return false; }

    bool flush() noexcept override {
        ++flushes;
        if (!started_.empty()) {
            ++submissions;
            write_byte(ends_.far);
        }
        submitted_.insert(submitted_.end(), started_.begin(), started_.end());
        started_.clear();
        return left_over_;
    }

    std::size_t deliver() override {
        penstock::testing::drain(ends_.near.get());
        interrupted_ = false;
        std::size_t delivered = 0;
        while (!submitted_.empty() && !interrupted_) {
            FileOperation* operation = submitted_.front();
            submitted_.erase(submitted_.begin());
            ++delivered;
            const bool ended = operation == cancelled_;
            operation->on_complete(
                *operation, ended ? -ECANCELED : static_cast<std::int64_t>(operation->length));
        }
        left_over_ = !submitted_.empty();
        return delivered;
    }

    int flushes = 0;
    int submissions = 0;

private:
    EventLoop& loop_;
    SocketPair ends_;
    std::vector<FileOperation*> started_;
    std::vector<FileOperation*> submitted_;
    FileOperation* cancelled_ = nullptr;
    bool interrupted_ = false;
    bool left_over_ = false;
};

struct Read : FileOperation {
    explicit Read(std::uint32_t bytes, std::function<void()> function = {})
        : FileOperation(&finish), then(std::move(function)) {
        to_read(0, nullptr, bytes, 0);
    }

    static void finish(FileOperation& operation, std::int64_t result) {
        auto& self = static_cast<Read&>(operation);
        self.results.push_back(result);
        if (self.then) {
            self.then();
        }
    }

    std::vector<std::int64_t> results;
    std::function<void()> then;
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
    EXPECT_EQ(read.results, (std::vector<std::int64_t>{100}));
}

TEST(FileEngine, OperationsOfOneBatchOfCallbacksAreSubmittedTogether) {
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
    EXPECT_TRUE(std::all_of(reads.begin(), reads.end(), [](const Read& read) {
        return read.results == std::vector<std::int64_t>{7};
    }));
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
    EXPECT_EQ(read.results, (std::vector<std::int64_t>{-ECANCELED}));
}

TEST(FileEngine, ImmediateErrorIsReturnedAndNotDelivered) {
    EventLoop loop;
    FakeEngine engine(loop);
    Read read(1);
    read.fd = -1;
    EXPECT_EQ(engine.start(read), std::errc::bad_file_descriptor);
    loop.run_once(0);
    EXPECT_TRUE(read.results.empty());
}

TEST(FileEngine, DetachedEngineIsNotFlushed) {
    EventLoop loop;
    const FakeEngine engine(loop);
    loop.detach_files();
    loop.run_once(0);
    EXPECT_EQ(engine.flushes, 0);
}

TEST(FileEngine, SecondEngineIsRefused) {
    EventLoop loop;
    const FakeEngine first(loop);
    const std::unique_ptr<FileEngine> second = io::make_worker_engine();
    EXPECT_EQ(loop.attach(*second), std::errc::device_or_resource_busy);
    EXPECT_EQ(loop.files(), &first);
}

TEST(FileEngine, InterruptedDeliveryContinuesInTheNextIteration) {
    const Watchdog watchdog;
    EventLoop loop;
    FakeEngine engine(loop);
    Read first(1, [&] { loop.interrupt(); });
    Read second(2);
    ASSERT_FALSE(engine.start(first) || engine.start(second));
    loop.run_once();
    EXPECT_TRUE(second.results.empty());
    loop.run_once();
    EXPECT_EQ(second.results, (std::vector<std::int64_t>{2}));
}

TEST(FileOperation, IsADescriptionUntilItIsStarted) {
    FileOperation operation([](FileOperation&, std::int64_t) {});
    EXPECT_EQ(operation.kind, FileOperation::Kind::none);
    EXPECT_FALSE(operation.in_flight());
    operation.to_fsync(3);
    EXPECT_EQ(operation.kind, FileOperation::Kind::fsync);
    EXPECT_EQ(operation.fd, 3);
}

} // namespace
