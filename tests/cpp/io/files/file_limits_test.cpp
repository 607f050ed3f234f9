// File engines when a resource is scarce: room in the ring, threads, memory, the ring itself.

#include <penstock/io/event_loop.hpp>
#include <penstock/io/files/choose_file_engine.hpp>
#include <penstock/io/files/file_engine.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "support/child_process.hpp"
#include "support/denied_calls.hpp"
#include "support/descriptors.hpp"
#include "support/file_engines.hpp"

namespace {

using penstock::io::choose_file_engine;
using penstock::io::EventLoop;
using penstock::io::FileEnginePreference;
using penstock::io::FileOperation;
using penstock::testing::complete;
using penstock::testing::complete_all;
using penstock::testing::Descriptor;
using penstock::testing::FileEngineNames;
using penstock::testing::FileEngines;
using penstock::testing::in_child_process;
using penstock::testing::OnEachFileEngine;
using penstock::testing::opened;
using penstock::testing::Pipe;
using penstock::testing::run;
using penstock::testing::TestOperation;

constexpr auto whole = FileOperation::Extent::whole;

template <typename Kind> class FileLimits : public OnEachFileEngine<Kind> {};

TYPED_TEST_SUITE(FileLimits, FileEngines, FileEngineNames);

TYPED_TEST(FileLimits, MoreOperationsThanAnyQueueHoldsComplete) {
    const auto engine = this->make({.max_threads = 2, .ring_entries = 4});
    EventLoop loop;
    ASSERT_FALSE(loop.attach(*engine));
    constexpr std::size_t count = 5000;
    std::string content;
    while (content.size() < count) {
        content += "penstock";
    }
    const Descriptor file = opened(this->folder.file("file", content));
    std::string read(count, '#');
    std::vector<TestOperation> reads;
    reads.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        reads.emplace_back();
        reads.back().to_read(file.get(), &read[i], 1, static_cast<std::int64_t>(i));
        ASSERT_FALSE(engine->start(reads.back()));
    }
    while (engine->in_flight() != 0) {
        loop.run_once();
    }
    EXPECT_EQ(read, content.substr(0, count));
    loop.detach_files();
}

/// What waits for another process: pipes, and opens of a FIFO in every way.
std::vector<TestOperation> waiting_operations(std::size_t count, const Pipe& pipe,
                                              const std::string& fifo, char& byte) {
    std::vector<TestOperation> operations(count);
    for (std::size_t i = 0; i < count; ++i) {
        TestOperation& operation = operations[i];
        switch (i % 8) {
        case 0:
            operation.to_open(fifo.c_str(), O_RDONLY);
            break;
        case 1:
            operation.to_open(fifo.c_str(), O_RDONLY | O_CREAT, 0600);
            break;
        case 2:
            operation.to_read_file(fifo.c_str(), &byte, 1);
            break;
        default:
            operation.to_read(pipe.out.get(), &byte, 1, FileOperation::current_position);
            break;
        }
    }
    return operations;
}

TYPED_TEST(FileLimits, WaitingOperationsKeepNoOtherFromWorking) {
    const auto engine = this->make({.max_threads = 2, .ring_entries = 4});
    const std::string path = this->folder.path("fifo");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const Pipe pipe;
    char byte = 0;
    std::vector<TestOperation> waiting = waiting_operations(400, pipe, path, byte);
    for (TestOperation& operation : waiting) {
        ASSERT_FALSE(engine->start(operation));
        engine->flush();
    }
    const std::string folder = this->folder.path("folder");
    const std::string file = this->folder.path("file");
    struct statx status{};
    EXPECT_EQ(run(*engine, [&](auto& it) { it.to_make_directory(folder.c_str(), 0700); }), 0);
    EXPECT_EQ(run(*engine, [&](auto& it) { it.to_stat(folder.c_str(), status); }), 0);
    EXPECT_EQ(run(*engine, [&](auto& it) { it.to_call([](auto&) { return std::int64_t{7}; }); }),
              7);
    EXPECT_GE(run(*engine,
                  [&](auto& it) { it.to_open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600); }),
              0);
    engine->close();
    for (const TestOperation& operation : waiting) {
        EXPECT_EQ(operation.results, std::vector<std::int64_t>{-ECANCELED});
    }
}

TYPED_TEST(FileLimits, WriteOnlyOpensOfFifosKeepNoOtherFromWorking) {
    const auto engine = this->make({.max_threads = 2, .ring_entries = 4});
    const std::string path = this->folder.path("fifo");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    std::vector<TestOperation> waiting(60);
    for (TestOperation& operation : waiting) {
        operation.to_open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        ASSERT_FALSE(engine->start(operation));
        engine->flush();
    }
    const std::string folder = this->folder.path("folder");
    EXPECT_EQ(run(*engine, [&](auto& it) { it.to_make_directory(folder.c_str(), 0700); }), 0);
    const Descriptor reader = opened(path, O_RDONLY | O_NONBLOCK);
    complete_all(*engine);
    for (const TestOperation& operation : waiting) {
        ASSERT_EQ(operation.results.size(), 1U);
        EXPECT_GE(operation.results[0], 0);
        ::close(static_cast<int>(operation.results[0]));
    }
}

TYPED_TEST(FileLimits, AFifoThatManyWaitForServesEachOfThem) {
    const auto engine = this->make({.max_threads = 2});
    const Pipe pipe;
    std::array<char, 100> bytes{};
    std::vector<TestOperation> reads(bytes.size());
    for (std::size_t i = 0; i < reads.size(); ++i) {
        reads[i].to_read(pipe.out.get(), &bytes[i], 1, FileOperation::current_position);
        ASSERT_FALSE(engine->start(reads[i]));
    }
    engine->flush();
    const std::string sent(bytes.size(), 'p');
    ASSERT_EQ(::write(pipe.in.get(), sent.data(), sent.size()), 100);
    complete_all(*engine);
    for (const TestOperation& read : reads) {
        EXPECT_EQ(read.results, std::vector<std::int64_t>{1});
    }
    EXPECT_EQ(std::string(bytes.data(), bytes.size()), sent);
}

std::size_t thread_count() {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
        count += entry.exists() ? 1 : 0;
    }
    return count;
}

/// The threads of a process whose engines have none. With its first thread, a program under
/// ThreadSanitizer has another, which stays.
std::size_t count_without_engines() {
    pid_t first = 0;
    std::thread([&] { first = ::gettid(); }).join();
    // The kernel lists a thread for a moment after it was joined.
    while (std::filesystem::exists("/proc/self/task/" + std::to_string(first))) {
        std::this_thread::yield();
    }
    return thread_count();
}

TYPED_TEST(FileLimits, ThreadsWithoutWorkEnd) {
    const std::size_t threads_before = count_without_engines();
    const auto engine = this->make({.idle_milliseconds = 1});
    const std::string path = this->folder.path("fifo");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const Pipe pipe;
    char byte = 0;
    std::size_t descriptors = 0;
    for (int round = 0; round < 2; ++round) {
        std::vector<TestOperation> waiting = waiting_operations(64, pipe, path, byte);
        for (TestOperation& operation : waiting) {
            ASSERT_FALSE(engine->start(operation));
        }
        EXPECT_EQ(run(*engine, [](auto& it) { it.to_call([](auto&) { return std::int64_t{0}; }); }),
                  0);
        engine->cancel_all();
        complete_all(*engine);
        while (thread_count() > threads_before) { // the watchdog ends a failing test
            std::this_thread::yield();
        }
        descriptors = round == 0 ? penstock::testing::open_descriptors() : descriptors;
        EXPECT_EQ(penstock::testing::open_descriptors(), descriptors);
    }
    EXPECT_EQ(run(*engine, [](auto& it) { it.to_call([](auto&) { return std::int64_t{1}; }); }), 1)
        << "the engine still works";
}

TYPED_TEST(FileLimits, OnlyAnOperationThatHasNotBegunIsWithdrawn) {
    const auto engine = this->make({.max_threads = 1});
    static std::atomic<int> began;
    static std::atomic<bool> may_end;
    began = 0;
    may_end = false;
    const FileOperation::Call wait = [](FileOperation&) {
        ++began;
        began.notify_all();
        may_end.wait(false);
        return std::int64_t{5};
    };
    std::array<TestOperation, 3> calls;
    for (TestOperation& call : calls) {
        call.to_call(wait);
        ASSERT_FALSE(engine->start(call));
    }
    engine->flush();
    began.wait(0);
    EXPECT_FALSE(engine->withdraw(calls[0]));
    EXPECT_TRUE(engine->withdraw(calls[1]));
    EXPECT_FALSE(engine->withdraw(calls[1])) << "it has ended";
    complete(*engine, calls[1]);
    EXPECT_EQ(calls[1].results, std::vector<std::int64_t>{-ECANCELED});
    may_end = true;
    may_end.notify_all();
    complete_all(*engine);
    EXPECT_EQ(calls[0].results, std::vector<std::int64_t>{5});
    EXPECT_EQ(calls[2].results, std::vector<std::int64_t>{5});
    EXPECT_EQ(began, 2);
}

TYPED_TEST(FileLimits, AnOperationForWhichThereIsNoThreadEndsOnce) {
    if (!penstock::testing::child_may_start_threads) {
        GTEST_SKIP() << "this sanitizer does not let the child of a fork start threads";
    }
    const int child = in_child_process([&] {
        const rlimit none{.rlim_cur = 0, .rlim_max = 0};
        constexpr unsigned nobody = 65534;
        if (setgid(nobody) != 0 || setuid(nobody) != 0 || setrlimit(RLIMIT_NPROC, &none) != 0) {
            return penstock::testing::could_not_be_tried;
        }
        const auto engine = this->make({});
        std::array<TestOperation, 3> calls;
        for (TestOperation& call : calls) {
            call.to_call([](auto&) { return std::int64_t{0}; });
            if (engine->start(call)) {
                return __LINE__;
            }
        }
        engine->flush();
        engine->cancel(calls[0]);
        if (engine->withdraw(calls[1])) {
            return __LINE__;
        }
        engine->cancel_all();
        complete_all(*engine);
        for (const TestOperation& call : calls) {
            if (call.results != std::vector<std::int64_t>{-EAGAIN} || !call.found_no_thread()) {
                return __LINE__;
            }
        }
        return 0;
    });
    if (child == penstock::testing::could_not_be_tried) {
        GTEST_SKIP() << "only root can become another user";
    }
    EXPECT_EQ(child, 0);
}

/// The signal that interrupts worker threads: they have set its handler.
int interrupting_signal() {
    for (int number = SIGRTMAX; number >= SIGRTMIN; --number) {
        struct sigaction action{};
        if (sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_DFL) {
            return number;
        }
    }
    return 0;
}

bool sleeps(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    const std::string line((std::istreambuf_iterator<char>(file)), {});
    return line.find(") S ") != std::string::npos;
}

/// An interrupt has no effect if its thread is not in the system call yet. Here the first ones have
/// none, until the loop blocks: another handler stands in the way of the signal.
TYPED_TEST(FileLimits, AnInterruptWithoutEffectIsRepeatedWhileTheLoopBlocks) {
    const auto engine = this->make({});
    EventLoop loop;
    ASSERT_FALSE(loop.attach(*engine));
    const std::string path = this->folder.path("fifo");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    TestOperation open;
    open.to_open(path.c_str(), O_RDONLY);
    do {
        ASSERT_FALSE(engine->start(open));
        run(*engine, [](auto& it) { it.to_call([](auto&) { return std::int64_t{0}; }); });
        if (!engine->withdraw(open)) {
            break; // a thread has taken it
        }
        complete(*engine, open);
    } while (true);
    open.results.clear();
    const int number = interrupting_signal();
    struct sigaction other{};
    struct sigaction theirs{};
    other.sa_handler = [](int) {};
    ASSERT_EQ(sigaction(number, &other, &theirs), 0);
    engine->cancel(open);
    std::thread restorer([&, thread = ::gettid()] {
        while (!sleeps(thread)) {
            std::this_thread::yield();
        }
        sigaction(number, &theirs, nullptr);
    });
    while (open.in_flight()) { // the watchdog ends a failing test
        loop.run_once();
    }
    restorer.join();
    EXPECT_EQ(open.results, std::vector<std::int64_t>{-ECANCELED});
    loop.detach_files();
}

/// fstat(2) waits for a file server, and on NFS for all written data. Here it is denied: the loop's
/// thread sends a pipe to the epoll nevertheless, and the only worker stays free.
TYPED_TEST(FileLimits, TheTypeOfAFileIsFoundWithoutFstat) {
    if (!penstock::testing::child_may_start_threads) {
        GTEST_SKIP() << "this sanitizer does not let the child of a fork start threads";
    }
    const int child = in_child_process([&] {
        const auto engine = this->make({.max_threads = 1});
        for (const long call : {SYS_fstat, SYS_newfstatat}) {
            if (!penstock::testing::deny_system_call(call, EIO)) {
                return penstock::testing::could_not_be_tried;
            }
        }
        const Pipe pipe;
        char byte = 0;
        TestOperation read;
        read.to_read(pipe.out.get(), &byte, 1, FileOperation::current_position);
        if (engine->start(read)) {
            return __LINE__;
        }
        const auto answer =
            run(*engine, [](auto& it) { it.to_call([](auto&) { return std::int64_t{7}; }); });
        engine->close();
        return answer == 7 ? 0 : __LINE__;
    });
    if (child == penstock::testing::could_not_be_tried) {
        GTEST_SKIP() << "seccomp is refused here";
    }
    EXPECT_EQ(child, 0);
}

TYPED_TEST(FileLimits, ASpliceThatWaitsIsCancelled) {
    const auto engine = this->make({});
    const Pipe empty;
    const Pipe target;
    std::array<TestOperation, 8> splices; // some are in splice(2) when they are cancelled
    for (TestOperation& splice : splices) {
        splice.to_splice(empty.out.get(), FileOperation::current_position, target.in.get(),
                         FileOperation::current_position, 10);
        ASSERT_FALSE(engine->start(splice));
    }
    engine->flush();
    EXPECT_EQ(run(*engine, [](auto& it) { it.to_call([](auto&) { return std::int64_t{3}; }); }), 3);
    engine->cancel_all();
    complete_all(*engine);
    for (const TestOperation& splice : splices) {
        EXPECT_EQ(splice.results, std::vector<std::int64_t>{-ECANCELED});
    }
}

/// Reads that wait for descriptors which are closed while duplicates of them stay open, so that the
/// kernel goes on to report them. No thread may work on that for ever.
TYPED_TEST(FileLimits, ADescriptorThatIsClosedDuringAWaitKeepsNoThreadBusy) {
    const std::size_t threads_before = count_without_engines();
    const auto engine = this->make({.idle_milliseconds = 1});
    for (const bool reused : {false, true}) {
        const Pipe pipe;
        const Pipe other;
        const int number = ::dup(pipe.out.get());
        char byte = 0;
        TestOperation read;
        read.to_read(number, &byte, 1, FileOperation::current_position);
        ASSERT_FALSE(engine->start(read));
        engine->flush();
        if (reused) {
            ASSERT_EQ(::dup2(other.out.get(), number), number);
            ASSERT_EQ(::write(other.in.get(), "o", 1), 1);
            ASSERT_EQ(::write(pipe.in.get(), "p", 1), 1);
            EXPECT_EQ(complete(*engine, read), 1);
            EXPECT_EQ(byte, 'o');
            ::close(number);
        } else {
            ::close(number);
            engine->cancel(read);
            EXPECT_EQ(complete(*engine, read), -ECANCELED);
            ASSERT_EQ(::write(pipe.in.get(), "p", 1), 1);
        }
        while (thread_count() > threads_before) { // the watchdog ends a failing test
            std::this_thread::yield();
        }
    }
}

TYPED_TEST(FileLimits, WholeReadsAlsoWaitForRoom) {
    const auto engine = this->make({.max_threads = 2, .ring_entries = 4});
    constexpr std::size_t count = 300;
    const std::string path = this->folder.file("file", "content");
    std::vector<std::array<char, 7>> memory(count);
    std::vector<TestOperation> reads(count);
    for (std::size_t i = 0; i < count; ++i) {
        reads[i].to_read_file(path.c_str(), memory[i].data(), memory[i].size());
        ASSERT_FALSE(engine->start(reads[i]));
    }
    complete_all(*engine);
    for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(reads[i].results, (std::vector<std::int64_t>{7}));
        EXPECT_EQ(std::string(memory[i].data(), 7), "content");
    }
}

TYPED_TEST(FileLimits, SignalsDoNotAffectOperations) {
    struct Storm {
        Storm() {
            struct sigaction action{};
            action.sa_handler = [](int) {};
            sigaction(SIGPROF, &action, &before); // no SA_RESTART: every call may end with EINTR
            const itimerval often{.it_interval = {.tv_sec = 0, .tv_usec = 200},
                                  .it_value = {.tv_sec = 0, .tv_usec = 200}};
            setitimer(ITIMER_PROF, &often, nullptr);
        }
        ~Storm() {
            const itimerval never{};
            setitimer(ITIMER_PROF, &never, nullptr);
            sigaction(SIGPROF, &before, nullptr);
        }
        Storm(const Storm&) = delete;
        Storm& operator=(const Storm&) = delete;
        struct sigaction before{};
    };
    const auto engine = this->make({.max_transfer = 1000});
    const Descriptor file = opened(this->folder.file("file"), O_RDWR);
    const std::string content(100000, 'p');
    const Storm storm;
    for (int round = 0; round < 20; ++round) {
        EXPECT_EQ(
            run(*engine,
                [&](auto& it) { it.to_write(file.get(), content.data(), content.size(), 0); }),
            100000);
        std::string read(content.size(), '#');
        EXPECT_EQ(
            run(*engine,
                [&](auto& it) { it.to_read(file.get(), read.data(), read.size(), 0, whole); }),
            100000);
        EXPECT_TRUE(read == content);
    }
}

TYPED_TEST(FileLimits, WorksWithoutLockableMemory) {
    const int child = in_child_process([&] {
        const rlimit none{.rlim_cur = 0, .rlim_max = 0};
        constexpr unsigned nobody = 65534;
        if (setrlimit(RLIMIT_MEMLOCK, &none) != 0 || setgid(nobody) != 0 || setuid(nobody) != 0) {
            return penstock::testing::could_not_be_tried;
        }
        const auto choice = choose_file_engine(std::string(TypeParam::name) == "threads"
                                                   ? FileEnginePreference::threads
                                                   : FileEnginePreference::automatic);
        char byte = 0;
        return run(*choice.engine,
                   [&](auto& it) { it.to_read_file("/proc/self/comm", &byte, 0); }) == -EFBIG
                   ? 0
                   : 1;
    });
    if (child == penstock::testing::could_not_be_tried) {
        GTEST_SKIP() << "only root can become another user";
    }
    EXPECT_EQ(child, 0);
}

class ForbiddenRing : public ::testing::TestWithParam<int> {};

TEST_P(ForbiddenRing, IsReplacedByThreads) {
    const penstock::testing::TemporaryFolder folder;
    const std::string path = folder.file("file", "content");
    const int child = in_child_process([&] {
        if (!penstock::testing::deny_system_call(SYS_io_uring_setup, GetParam())) {
            return penstock::testing::could_not_be_tried;
        }
        const auto choice = choose_file_engine(FileEnginePreference::automatic);
        std::string memory(7, '\0');
        const bool reads = run(*choice.engine, [&](auto& it) {
                               it.to_read_file(path.c_str(), memory.data(), memory.size());
                           }) == 7;
        return choice.engine->name() == "threads" && reads && memory == "content" ? 0 : 1;
    });
    if (child == penstock::testing::could_not_be_tried) {
        GTEST_SKIP() << "seccomp is refused here";
    }
    EXPECT_EQ(child, 0);
}

INSTANTIATE_TEST_SUITE_P(Each, ForbiddenRing,
                         ::testing::Values(EPERM, EACCES, ENOSYS, EINVAL, ENOMEM));

} // namespace
