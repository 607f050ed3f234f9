// Random programs over files and streams that are closed, destroyed, moved and reopened while
// operations are in flight, with forks in between. Each file holds a single letter, so a byte that
// reached or came from a reused descriptor number is detected.

#include <penstock/penstock.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coro/support/logs.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/child_process.hpp"
#include "support/descriptors.hpp"
#include "support/stress.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::Chunk;
using penstock::EventLoop;
using penstock::PipeEnds;
using penstock::Result;
using penstock::Scope;
using penstock::Task;
using penstock::fs::File;
using penstock::testing::child_may_start_threads;
using penstock::testing::connect_pair;
using penstock::testing::expect;
using penstock::testing::open_descriptors;
using penstock::testing::Stress;
using penstock::testing::TcpPair;
using penstock::testing::TemporaryFolder;
using penstock::testing::turns;
using penstock::testing::Watchdog;

constexpr unsigned task_count = 100;
constexpr unsigned actions_per_task = 15;
constexpr std::size_t file_size = 70'000;

/// The state shared by the tasks of a program.
class RandomProgram {
public:
    explicit RandomProgram(unsigned seed) : random_(seed) {
        for (std::size_t i = 0; i < names_.size(); ++i) {
            names_[i] = folder_.file(std::string(1, letter(i)), std::string(file_size, letter(i)));
        }
        fifo_ = folder_.path("fifo");
        EXPECT_EQ(::mkfifo(fifo_.c_str(), 0600), 0);
    }

    Task<> run() {
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            for (unsigned i = 0; i < task_count; ++i) {
                scope.spawn(act());
                co_await turns(static_cast<int>(draw(3)));
            }
        });
        for (Slot& slot : slots_) {
            slot.file = File();
        }
        for (std::size_t i = 0; i < names_.size(); ++i) {
            const std::string text = expect(co_await penstock::fs::read_text(names_[i]));
            EXPECT_TRUE(consists_of(text, letter(i)));
        }
    }

private:
    struct Slot {
        File file{};
        char letter = 0; ///< 0: a FIFO, with any content
    };

    static char letter(std::size_t file) { return static_cast<char>('a' + file); }

    static bool consists_of(std::string_view text, char letter) {
        return std::ranges::all_of(text, [&](char each) { return each == letter; });
    }

    unsigned draw(unsigned below) { return static_cast<unsigned>(random_()) % below; }

    std::chrono::microseconds random_delay() { return std::chrono::microseconds(draw(100)); }

    Slot& any_slot() { return slots_[draw(slots_.size())]; }

    Task<> act() {
        for (unsigned i = 0; i < actions_per_task; ++i) {
            switch (draw(14)) {
            case 0:
            case 1:
            case 2:
                co_await open();
                break;
            case 3:
            case 4:
                co_await read();
                break;
            case 5:
            case 6:
                co_await write();
                break;
            case 7:
                any_slot().file = File(); // while an operation uses it
                break;
            case 8: {
                Slot& to = any_slot();
                Slot& from = any_slot();
                if (&to != &from) {
                    to = std::move(from);
                }
                break;
            }
            case 9:
                // Reading a FIFO may wait until somebody writes.
                (void)co_await penstock::timeout(random_delay(), any_slot().file.close());
                break;
            case 10:
                co_await send();
                break;
            case 11:
                co_await use_pipe();
                break;
            case 12:
                (void)co_await any_slot().file.status();
                break;
            default:
                if (draw(20) == 0) {
                    fork_child();
                }
                (void)co_await penstock::sleep_for(random_delay());
            }
        }
    }

    Task<> open() {
        const std::size_t which = draw(names_.size() + 1);
        const bool fifo = which == names_.size();
        Result<File> file =
            co_await File::open(fifo ? fifo_ : names_[which], {.read = true, .write = true});
        if (file) {
            Slot& slot = any_slot();
            slot.file = std::move(*file);
            slot.letter = fifo ? '\0' : letter(which);
        } else {
            EXPECT_EQ(file.error(), std::errc::operation_canceled);
        }
    }

    Task<> read() {
        std::string text(1 + draw(draw(4) == 0 ? file_size : 5000), '?');
        Slot& slot = any_slot();
        const char own = slot.letter;
        const std::uint64_t offset = draw(file_size);
        Result<std::size_t> count = 0;
        if (own == 0) {
            count = co_await penstock::timeout(random_delay(), slot.file.read(text));
        } else if (draw(2) == 0) {
            count = co_await penstock::timeout(random_delay(), slot.file.read_at(offset, text));
        } else {
            count = co_await slot.file.read_at(offset, text);
        }
        if (count && own != 0) {
            EXPECT_TRUE(consists_of(std::string_view(text).substr(0, *count), own));
        }
    }

    Task<> write() {
        Slot& slot = any_slot();
        const std::string text(1 + draw(5000), slot.letter == 0 ? '-' : slot.letter);
        const std::uint64_t offset = draw(file_size - 5001);
        if (slot.letter == 0) {
            (void)co_await penstock::timeout(random_delay(), slot.file.write_all(text));
        } else if (draw(2) == 0) {
            (void)co_await penstock::timeout(random_delay(), slot.file.write_all_at(offset, text));
        } else {
            (void)co_await slot.file.write_all_at(offset, text);
        }
    }

    Task<> send() {
        TcpPair pair = co_await connect_pair();
        Slot& slot = any_slot();
        const char own = slot.letter;
        if (own == 0) {
            co_return;
        }
        const auto receive = [](penstock::net::TcpStream& stream, char only) -> Task<> {
            for (;;) {
                const Result<Chunk> chunk = co_await stream.receive();
                if (!chunk || chunk->empty()) {
                    co_return;
                }
                const auto* text = reinterpret_cast<const char*>(chunk->data());
                EXPECT_TRUE(consists_of(std::string_view(text, chunk->size()), only));
            }
        };
        const unsigned closes = draw(4);
        const auto transmit = [&]() -> Task<> {
            (void)co_await pair.near.send_file(slot.file, draw(file_size), file_size);
            if (closes == 0) {
                pair.near.reset();
            }
            pair.near.close();
        };
        if (closes == 1) {
            (void)co_await penstock::race(receive(pair.far, own), transmit());
        } else {
            (void)co_await penstock::all(receive(pair.far, own), transmit());
        }
    }

    /// Alternates between the numbers of pipes and files.
    Task<> use_pipe() {
        PipeEnds pipe = expect(penstock::make_pipe());
        const std::string text(1 + draw(3000), '|');
        const auto write = [&]() -> Task<> {
            (void)co_await pipe.writer.write_all(text);
            pipe.writer.close();
        };
        const auto read = [&]() -> Task<> {
            std::string got(5000, '?');
            while (const Result<std::size_t> count = co_await pipe.reader.read(got)) {
                if (*count == 0) {
                    break;
                }
                EXPECT_TRUE(consists_of(std::string_view(got).substr(0, *count), '|'));
            }
        };
        (void)co_await penstock::all(write(), read());
    }

    /// A child that closes some of its descriptors, possibly runs its own loop, and ends.
    void fork_child() {
        const unsigned what = draw(4);
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            ::alarm(60);
            for (std::size_t i = what % 2; i < slots_.size(); i += 2) {
                slots_[i].file = File();
            }
            int answer = 0;
            if (what == 3 && child_may_start_threads) {
                answer = penstock::run(in_child(names_[0]));
            }
            ::_exit(answer);
        }
        int status = 0;
        EXPECT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }

    static Task<int> in_child(std::string path) {
        const auto text = co_await penstock::fs::read_text(path);
        const auto seven = co_await penstock::to_thread([] { return 7; });
        TcpPair pair = co_await connect_pair();
        const bool sent = (co_await pair.near.write_all("x")).has_value();
        co_return text&& consists_of(*text, 'a') && seven == 7 && sent ? 0 : 1;
    }

    std::mt19937 random_;
    TemporaryFolder folder_;
    std::array<std::string, 5> names_;
    std::string fifo_;
    std::array<Slot, 8> slots_;
};

TEST(FileStress, NoByteReachesAnotherFileAndNoDescriptorLeaks) {
    const Watchdog watchdog(Stress::patience());
    const Stress stress(8);
    for (unsigned seed = stress.first; seed < stress.end; ++seed) {
        ::setenv("PENSTOCK_FILES", seed % 2 == 0 ? "auto" : "threads", 1);
        (void)penstock::run(penstock::testing::turns(1));
        const std::size_t open_before = open_descriptors();
        {
            RandomProgram program(seed);
            EventLoop loop(EventLoop::Options{.shuffle_seed = seed});
            loop.run(program.run());
            ASSERT_TRUE(loop.tasks().empty()) << "seed " << seed;
            ASSERT_TRUE(loop.timers().empty()) << "seed " << seed;
        }
        ASSERT_EQ(open_descriptors(), open_before) << "seed " << seed;
        ASSERT_FALSE(HasFailure()) << "seed " << seed;
    }
    ::unsetenv("PENSTOCK_FILES");
}

} // namespace
