// Writing to a pipe without a reader fails the write on each engine, and never raises SIGPIPE,
// which would end the process. Each test runs in a child, which dies if the signal is raised.

#include <penstock/io/files/file_engine.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/uio.h>

#include "io/files/engine_making.hpp"
#include "support/child_process.hpp"
#include "support/descriptors.hpp"
#include "support/file_engines.hpp"

namespace {

using penstock::io::FileEngineOptions;
using penstock::io::FileOperation;
using penstock::testing::child_may_start_threads;
using penstock::testing::complete;
using penstock::testing::fill;
using penstock::testing::in_child_process;
using penstock::testing::opened;
using penstock::testing::Pipe;
using penstock::testing::Ring;
using penstock::testing::run;
using penstock::testing::TestOperation;
using penstock::testing::Threads;

constexpr auto current = FileOperation::current_position;

/// The ring on a kernel before Linux 6.18, which has no RWF_NOSIGNAL.
struct OlderRing : Ring {
    static constexpr const char* name = "older_uring";

    class Kernel final : public penstock::io::RingKernel {
        bool may_support_nosignal() noexcept override { return false; }
    };

    static std::unique_ptr<penstock::io::FileEngine> make(const FileEngineOptions& options) {
        static Kernel kernel;
        return penstock::io::make_uring_engine(options, kernel);
    }
};

template <typename Kind> class FilePipeSignal : public ::testing::Test {
protected:
    void SetUp() override {
        if (Kind::refused()) {
            GTEST_SKIP() << "io_uring is refused here";
        }
        if (!child_may_start_threads) {
            GTEST_SKIP() << "the sanitizer forbids threads in a child";
        }
    }

    static int result_of(bool right) { return right ? 0 : 1; }
};

using Engines = ::testing::Types<Threads, Ring, OlderRing>;

struct Names {
    template <typename Kind> static std::string GetName(int /*index*/) { return Kind::name; }
};

TYPED_TEST_SUITE(FilePipeSignal, Engines, Names);

TYPED_TEST(FilePipeSignal, AWriteToAPipeWithoutAReaderFails) {
    EXPECT_EQ(in_child_process([] {
                  const auto engine = TypeParam::make({});
                  Pipe pipe;
                  pipe.out.close();
                  const std::int64_t plain =
                      run(*engine, [&](auto& it) { it.to_write(pipe.in.get(), "x", 1, current); });
                  char letter = 'x';
                  iovec part{.iov_base = &letter, .iov_len = 1};
                  const std::int64_t parts = run(
                      *engine, [&](auto& it) { it.to_writev(pipe.in.get(), &part, 1, current); });
                  return TestFixture::result_of(plain == -EPIPE && parts == -EPIPE);
              }),
              0);
}

// The ring continues the write when the pipe has room, on the thread that started it.
TYPED_TEST(FilePipeSignal, AWriteThatWaitsFailsWhenTheReaderCloses) {
    EXPECT_EQ(in_child_process([] {
                  const auto engine = TypeParam::make({});
                  Pipe pipe;
                  ::fcntl(pipe.in.get(), F_SETFL, O_NONBLOCK);
                  fill(pipe.in);
                  ::fcntl(pipe.in.get(), F_SETFL, 0);
                  const std::string text(100'000, 'x');
                  TestOperation write;
                  write.to_write(pipe.in.get(), text.data(), text.size(), current);
                  if (engine->start(write)) {
                      return 2;
                  }
                  (void)engine->flush();
                  pipe.out.close();
                  return TestFixture::result_of(complete(*engine, write) == -EPIPE);
              }),
              0);
}

TYPED_TEST(FilePipeSignal, ASpliceIntoAPipeWithoutAReaderFails) {
    EXPECT_EQ(in_child_process([] {
                  const auto engine = TypeParam::make({});
                  Pipe pipe;
                  pipe.out.close();
                  const auto zeros = opened("/proc/self/exe");
                  const std::int64_t result = run(*engine, [&](auto& it) {
                      it.to_splice(zeros.get(), 0, pipe.in.get(), current, 10);
                  });
                  return TestFixture::result_of(result == -EPIPE);
              }),
              0);
}

TYPED_TEST(FilePipeSignal, ARegularFileIsWrittenAsBefore) {
    const penstock::testing::TemporaryFolder folder;
    const auto engine = TypeParam::make({});
    const auto file = opened(folder.path("file"), O_RDWR | O_CREAT);
    EXPECT_EQ(run(*engine, [&](auto& it) { it.to_write(file.get(), "text", 4, 0); }), 4);
    EXPECT_EQ(folder.content("file"), "text");
}

} // namespace
