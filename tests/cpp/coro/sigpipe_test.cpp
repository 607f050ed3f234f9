// A write to a closed peer returns an error and raises no SIGPIPE. Each test runs in a child, which
// the signal would kill.

#include <penstock/penstock.hpp>

#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "coro/support/tcp_pair.hpp"
#include "support/child_process.hpp"
#include "support/temporary_folder.hpp"

namespace {

using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::fs::File;
using penstock::testing::child_may_start_threads;
using penstock::testing::connect_pair;
using penstock::testing::expect;
using penstock::testing::in_child_process;
using penstock::testing::TcpPair;
using penstock::testing::TemporaryFolder;
namespace net = penstock::net;

bool reports_closed(const std::error_code& error) {
    return error == std::errc::broken_pipe || error == std::errc::connection_reset;
}

/// Sends a file until an error says that the peer has closed. The kernel knows that after a reset.
template <typename Stream> Task<bool> sends_to_nobody(Stream stream, int file) {
    for (int i = 0; i < 100; ++i) {
        const Result<std::uint64_t> sent = co_await stream.send_file(file, 0, 100'000);
        if (!sent && sent.error() == std::errc::broken_pipe) {
            co_return true;
        }
        if (!sent && !reports_closed(sent.error())) {
            co_return false;
        }
    }
    co_return false;
}

int send_over_tcp() {
    const auto program = []() -> Task<bool> {
        const penstock::OwnedDescriptor file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
        TcpPair pair = co_await connect_pair();
        pair.far.reset();
        co_return co_await sends_to_nobody(std::move(pair.near), file.get());
    };
    return run(program()) ? 0 : 1;
}

TEST(Sigpipe, AFileThatIsSentToAPeerThatHasResetIsAnError) {
    EXPECT_EQ(in_child_process(&send_over_tcp), 0);
}

TEST(Sigpipe, AFileThatIsSentOverAUnixSocketWithoutAPeerIsAnError) {
    const auto body = [] {
        const auto program = []() -> Task<bool> {
            const penstock::OwnedDescriptor file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
            auto [near, far] = expect(net::UnixStream::pair());
            far.close();
            co_return co_await sends_to_nobody(std::move(near), file.get());
        };
        return run(program()) ? 0 : 1;
    };
    EXPECT_EQ(in_child_process(body), 0);
}

TEST(Sigpipe, OneThatWasPendingBeforeStaysAndNoneIsAdded) {
    const auto body = [] {
        sigset_t sigpipe;
        sigemptyset(&sigpipe);
        sigaddset(&sigpipe, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &sigpipe, nullptr);
        const auto is_pending = [] {
            sigset_t pending;
            sigpending(&pending);
            return sigismember(&pending, SIGPIPE) == 1;
        };
        if (send_over_tcp() != 0 || is_pending()) {
            return 1;
        }
        ::raise(SIGPIPE);
        return send_over_tcp() == 0 && is_pending() ? 0 : 2;
    };
    EXPECT_EQ(in_child_process(body), 0);
}

TEST(Sigpipe, TheThreadsMaskIsAsItWas) {
    const auto body = [] {
        if (send_over_tcp() != 0) {
            return 1;
        }
        sigset_t mask;
        pthread_sigmask(SIG_BLOCK, nullptr, &mask);
        return sigismember(&mask, SIGPIPE) == 0 ? 0 : 2;
    };
    EXPECT_EQ(in_child_process(body), 0);
}

class PipeSignalOfFiles : public ::testing::TestWithParam<const char*> {};

TEST_P(PipeSignalOfFiles, AFifoWithoutAReaderIsAnErrorOfItsFile) {
    if (!child_may_start_threads) {
        GTEST_SKIP() << "the sanitizer forbids threads in a child";
    }
    const TemporaryFolder folder;
    const std::string path = folder.path("fifo");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const auto body = [&] {
        ::setenv("PENSTOCK_FILES", GetParam(), 1);
        const auto program = [&]() -> Task<bool> {
            File both = expect(co_await File::open(path, {.read = true, .write = true}));
            File writer = expect(co_await File::open(path, {.read = false, .write = true}));
            expect(co_await both.close());
            const Result<> written = co_await writer.write_all("to nobody");
            co_return !written && written.error() == std::errc::broken_pipe;
        };
        return run(program()) ? 0 : 1;
    };
    EXPECT_EQ(in_child_process(body), 0);
}

INSTANTIATE_TEST_SUITE_P(OnEachEngine, PipeSignalOfFiles, ::testing::Values("auto", "threads"),
                         [](const auto& engine) { return std::string(engine.param); });

} // namespace
