// A task that never has to wait still lets others run. Operations without a system call and
// immediate failures consume budget too.

#include <penstock/penstock.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "coro/support/tcp_pair.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::BufReader;
using penstock::BufWriter;
using penstock::MutableBytes;
using penstock::OwnedDescriptor;
using penstock::PipeEnds;
using penstock::PipeReader;
using penstock::Result;
using penstock::run;
using penstock::Scope;
using penstock::Task;
using penstock::fs::File;
using penstock::testing::expect;
using penstock::testing::TemporaryFolder;
using penstock::testing::Watchdog;
namespace sync = penstock::sync;

constexpr int many = 1000;

/// The budget is 64 operations: others get at least that many iterations while `many` operations
/// run.
constexpr int enough = many / 64 - 1;

/// The number of iterations that another task gets while `busy` runs.
Task<int> turns_beside(std::function<Task<>()> busy) {
    int turns = 0;
    const auto other = [&]() -> Task<> {
        while (co_await penstock::yield()) {
            ++turns;
        }
    };
    (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
        scope.spawn(other());
        expect(co_await penstock::yield());
        turns = 0;
        co_await busy();
        scope.cancel();
    });
    co_return turns;
}

TEST(Budget, BufferedLines) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        PipeEnds pipe = expect(penstock::make_pipe());
        std::string text;
        for (int i = 0; i < many; ++i) {
            text += "line\n";
        }
        expect(co_await pipe.writer.write_all(text));
        BufReader reader(pipe.reader, text.size() * 2);
        EXPECT_GE(co_await turns_beside([&]() -> Task<> {
                      for (int i = 0; i < many; ++i) {
                          EXPECT_EQ(expect(co_await reader.line()), "line");
                      }
                  }),
                  enough);
    };
    run(program());
}

TEST(Budget, BufferedReads) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        PipeEnds pipe = expect(penstock::make_pipe());
        expect(co_await pipe.writer.write_all(std::string(std::size_t{2} * many, 'x')));
        BufReader reader(pipe.reader, std::size_t{4} * many);
        EXPECT_GE(co_await turns_beside([&]() -> Task<> {
                      std::array<char, 1> letter{};
                      for (int i = 0; i < many; ++i) {
                          EXPECT_EQ(co_await reader.read(letter), 1U);
                          EXPECT_TRUE(co_await reader.read_exactly(letter));
                      }
                  }),
                  enough);
    };
    run(program());
}

TEST(Budget, BufferedWrites) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        PipeEnds pipe = expect(penstock::make_pipe());
        BufWriter writer(pipe.writer, std::size_t{2} * many);
        EXPECT_GE(co_await turns_beside([&]() -> Task<> {
                      for (int i = 0; i < many; ++i) {
                          EXPECT_TRUE(co_await writer.write_all("x"));
                      }
                  }),
                  enough);
    };
    run(program());
}

TEST(Budget, SynchronisationPrimitives) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        sync::Mutex mutex;
        EXPECT_GE(co_await turns_beside([&]() -> Task<> {
                      for (int i = 0; i < many; ++i) {
                          const auto guard = co_await mutex.lock();
                      }
                  }),
                  enough);
        sync::Semaphore semaphore(1);
        EXPECT_GE(co_await turns_beside([&]() -> Task<> {
                      for (int i = 0; i < many; ++i) {
                          const auto permit = co_await semaphore.acquire();
                      }
                  }),
                  enough);
        penstock::Channel<int> channel(1);
        EXPECT_GE(co_await turns_beside([&]() -> Task<> {
                      for (int i = 0; i < many; ++i) {
                          expect(co_await channel.send(i));
                          EXPECT_EQ(co_await channel.receive(), i);
                      }
                  }),
                  enough);
        sync::Event event;
        event.set();
        EXPECT_GE(co_await turns_beside([&]() -> Task<> {
                      for (int i = 0; i < many; ++i) {
                          expect(co_await event.wait());
                      }
                  }),
                  enough);
    };
    run(program());
}

TEST(Budget, ImmediateFailures) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        PipeReader closed;
        std::array<char, 10> buffer{};
        EXPECT_GE(co_await turns_beside([&]() -> Task<> {
                      for (int i = 0; i < many; ++i) {
                          EXPECT_EQ((co_await closed.read(buffer)).error(),
                                    std::errc::bad_file_descriptor);
                      }
                  }),
                  enough);
        EXPECT_GE(co_await turns_beside([&]() -> Task<> {
                      for (int i = 0; i < many; ++i) {
                          EXPECT_EQ((co_await File::open(std::string_view("\0", 1))).error(),
                                    std::errc::invalid_argument);
                      }
                  }),
                  enough);
    };
    run(program());
}

// A loop that ignores errors starves nobody, although it was cancelled.
TEST(Budget, EverythingInACancelledTask) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        sync::Mutex mutex;
        sync::Condition condition;
        PipeEnds pipe = expect(penstock::make_pipe());
        std::array<char, 10> buffer{};
        const std::vector<std::pair<std::string_view, std::function<Task<>()>>> kinds{
            {"sleep", [&]() -> Task<> { (void)co_await penstock::sleep_for(1h); }},
            {"yield", [&]() -> Task<> { (void)co_await penstock::yield(); }},
            {"lock", [&]() -> Task<> { (void)co_await mutex.lock(); }},
            {"read", [&]() -> Task<> { (void)co_await pipe.reader.read(buffer); }},
            {"thread", [&]() -> Task<> { (void)co_await penstock::to_thread([] {}); }},
            {"open", [&]() -> Task<> { (void)co_await File::open("/"); }},
            {"condition",
             [&]() -> Task<> {
                 auto guard = mutex.try_lock();
                 (void)co_await condition.wait(*guard);
             }},
        };
        for (const auto& [name, again] : kinds) {
            penstock::Canceller canceller;
            canceller.cancel();
            const auto busy = [&]() -> Task<> {
                for (int i = 0; i < many; ++i) {
                    co_await again();
                }
            };
            EXPECT_GE(co_await turns_beside([&]() -> Task<> {
                          (void)co_await penstock::cancellable(canceller, busy());
                      }),
                      enough)
                << name;
        }
    };
    run(program());
}

TEST(Budget, ARegularFileReadAsAPipe) {
    const Watchdog watchdog;
    const TemporaryFolder folder;
    const std::string path = folder.file("file", std::string(many, 'x'));
    const auto program = [&]() -> Task<> {
        PipeReader reader =
            expect(PipeReader::adopt(OwnedDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC))));
        EXPECT_GE(co_await turns_beside([&]() -> Task<> {
                      std::array<char, 1> letter{};
                      for (int i = 0; i < many; ++i) {
                          EXPECT_EQ(co_await reader.read(letter), 1U);
                      }
                  }),
                  enough);
    };
    run(program());
}

TEST(Budget, LargeCachedReads) {
    const Watchdog watchdog;
    const TemporaryFolder folder;
    const std::string path = folder.file("file", std::string(std::size_t{4} << 20, 'x'));
    const auto program = [&]() -> Task<> {
        File file = expect(co_await File::open(path));
        std::vector<std::byte> whole(std::size_t{4} << 20);
        // More than the limit of a cached read: the engine reads the rest, and the loop is free
        // meanwhile.
        EXPECT_GE(co_await turns_beside([&]() -> Task<> {
                      EXPECT_EQ(co_await file.read_at(0, whole), whole.size());
                  }),
                  1);
        // A cached read consumes budget by its size.
        EXPECT_GE(co_await turns_beside([&]() -> Task<> {
                      constexpr std::size_t part = std::size_t{256} * 1024;
                      for (std::size_t done = 0; done < whole.size();) {
                          done +=
                              expect(co_await file.read(MutableBytes(whole.data() + done, part)));
                      }
                  }),
                  3);
    };
    run(program());
}

} // namespace
