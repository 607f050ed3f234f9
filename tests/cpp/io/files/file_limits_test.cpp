// File engines when a resource is scarce: room in the ring, threads, memory, the ring itself.

#include <penstock/io/event_loop.hpp>
#include <penstock/io/files/choose_file_engine.hpp>
#include <penstock/io/files/file_engine.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "support/child_process.hpp"
#include "support/descriptors.hpp"
#include "support/file_engines.hpp"

namespace {

using penstock::io::choose_file_engine;
using penstock::io::EventLoop;
using penstock::io::FileEnginePreference;
using penstock::io::FileOperation;
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

TYPED_TEST(FileLimits, BlockedOperationsDoNotOccupyAllThreads) {
    const auto engine = this->make({.max_threads = 2});
    const std::string path = this->folder.path("fifo");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const Pipe pipe;
    char byte = 0;
    std::vector<TestOperation> waiting;
    waiting.reserve(12);
    for (int i = 0; i < 12; ++i) {
        TestOperation& operation = waiting.emplace_back();
        switch (i % 3) {
        case 0:
            operation.to_read(pipe.out.get(), &byte, 1, FileOperation::current_position);
            break;
        case 1:
            operation.to_open(path.c_str(), O_RDONLY);
            operation.may_block_indefinitely = true;
            break;
        default:
            operation.to_read_file(path.c_str(), &byte, 1);
            operation.may_block_indefinitely = true;
            break;
        }
        ASSERT_FALSE(engine->start(operation));
        engine->flush();
    }
    const std::string made = this->folder.path("folder");
    EXPECT_EQ(run(*engine, [&](auto& it) { it.to_make_directory(made.c_str(), 0700); }), 0);
    engine->close();
    for (const TestOperation& operation : waiting) {
        EXPECT_EQ(operation.results, std::vector<std::int64_t>{-ECANCELED});
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

/// Makes io_uring_setup(2) fail with `error` from now on in this process, as a container's filter
/// does.
bool refuse_io_uring(unsigned error) {
    std::array<sock_filter, 4> code{{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    const sock_fprog program{.len = code.size(), .filter = code.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

class ForbiddenRing : public ::testing::TestWithParam<int> {};

TEST_P(ForbiddenRing, IsReplacedByThreads) {
    const penstock::testing::TemporaryFolder folder;
    const std::string path = folder.file("file", "content");
    const int child = in_child_process([&] {
        if (!refuse_io_uring(static_cast<unsigned>(GetParam()))) {
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
