#include <penstock/net/tcp_stream.hpp>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/task/all.hpp>
#include <penstock/task/all_settled.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/task/yield.hpp>

#include "coro/support/tcp_pair.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::Bytes;
using penstock::Chunk;
using penstock::Error;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::testing::connect_pair;
using penstock::testing::expect;
using penstock::testing::TcpPair;
using penstock::testing::Watchdog;
namespace net = penstock::net;

Task<std::string> read_to_the_end(net::TcpStream& stream) {
    std::string all;
    for (;;) {
        const Chunk chunk = expect(co_await stream.receive());
        if (chunk.empty()) {
            co_return all;
        }
        all.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
    }
}

std::string pattern(std::size_t size) {
    std::string text(size, ' ');
    for (std::size_t i = 0; i < size; ++i) {
        text[i] = static_cast<char>('!' + i * 31 % 90);
    }
    return text;
}

TEST(TcpStream, ReadsWhatTheOtherEndWrites) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        expect(co_await pair.near.write_all("hello"));
        std::string buffer(100, ' ');
        EXPECT_EQ(expect(co_await pair.far.read(buffer)), 5U);
        EXPECT_EQ(buffer.substr(0, 5), "hello");
    };
    run(program());
}

TEST(TcpStream, WaitsForData) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        const auto write_later = [](net::TcpStream& stream) -> Task<Result<>> {
            (void)co_await penstock::yield();
            co_return co_await stream.write_all("late");
        };
        std::string buffer(4, ' ');
        expect(co_await penstock::all(pair.far.read_exactly(buffer), write_later(pair.near)));
        EXPECT_EQ(buffer, "late");
    };
    run(program());
}

TEST(TcpStream, MovesMegabytesBothWaysAtOnce) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        const std::string there = pattern(8'000'000);
        const std::string back = pattern(5'000'000);
        const auto send = [](net::TcpStream& stream, const std::string& text) -> Task<Result<>> {
            if (Result<> written = co_await stream.write_all(text); !written) {
                co_return written;
            }
            co_return stream.shutdown();
        };
        const auto results =
            expect(co_await penstock::all(send(pair.near, there), send(pair.far, back),
                                          read_to_the_end(pair.near), read_to_the_end(pair.far)));
        EXPECT_EQ(std::get<2>(results), back);
        EXPECT_EQ(std::get<3>(results), there);
    };
    run(program());
}

TEST(TcpStream, GathersPartsOfAnyNumber) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        std::vector<std::string> texts;
        std::string whole = "head, body, ";
        for (int i = 0; i < 1000; ++i) {
            texts.push_back(i % 7 == 0 ? std::string() : std::to_string(i));
            whole += texts.back();
        }
        const std::vector<Bytes> parts(texts.begin(), texts.end());
        expect(co_await pair.near.write_all("head, ", std::string_view("body, ")));
        expect(co_await pair.near.write_all(std::span(parts)));
        expect(pair.near.shutdown());
        EXPECT_EQ(co_await read_to_the_end(pair.far), whole);
    };
    run(program());
}

TEST(TcpStream, ReadExactlyReportsAnEarlyEnd) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        expect(co_await pair.near.write_all("abc"));
        pair.near.close();
        std::string buffer(4, ' ');
        const Result<> filled = co_await pair.far.read_exactly(buffer);
        EXPECT_EQ(filled.error(), Error::end_of_stream);
        EXPECT_EQ(buffer, "abc ");
    };
    run(program());
}

TEST(TcpStream, ReadsNothingAtTheEnd) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        pair.near.close();
        std::string buffer(4, ' ');
        EXPECT_EQ(expect(co_await pair.far.read(buffer)), 0U);
        EXPECT_TRUE(expect(co_await pair.far.receive()).empty());
    };
    run(program());
}

TEST(TcpStream, AnOperationOnAClosedStreamFails) {
    const auto program = []() -> Task<> {
        net::TcpStream closed;
        std::string buffer(4, ' ');
        EXPECT_EQ((co_await closed.read(buffer)).error(), std::errc::bad_file_descriptor);
        EXPECT_EQ((co_await closed.write_all("x")).error(), std::errc::bad_file_descriptor);
        EXPECT_EQ(closed.no_delay(true).error(), std::errc::bad_file_descriptor);
    };
    run(program());
}

TEST(TcpStream, ASecondReaderIsRefused) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        std::string first(1, ' ');
        std::string second(1, ' ');
        const auto check = [](net::TcpStream& near, net::TcpStream& far,
                              std::string& into) -> Task<Result<>> {
            EXPECT_EQ((co_await far.read(into)).error(), std::errc::device_or_resource_busy);
            co_return co_await near.write_all("x");
        };
        expect(co_await penstock::all(pair.far.read_exactly(first),
                                      check(pair.near, pair.far, second)));
        EXPECT_EQ(first, "x");
    };
    run(program());
}

TEST(TcpStream, ATimeoutLeavesTheStreamUsable) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        std::string buffer(4, ' ');
        EXPECT_EQ((co_await penstock::timeout(1ms, pair.far.read(buffer))).error(),
                  std::errc::timed_out);
        expect(co_await pair.near.write_all("here"));
        expect(co_await pair.far.read_exactly(buffer));
        EXPECT_EQ(buffer, "here");
    };
    run(program());
}

TEST(TcpStream, ClosingCancelsWaitingOperations) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        std::string buffer(4, ' ');
        const auto close_later = [](net::TcpStream& stream) -> Task<> {
            (void)co_await penstock::yield();
            stream.close();
        };
        const auto [read, closed] =
            co_await penstock::all_settled(pair.far.read(buffer), close_later(pair.far));
        EXPECT_EQ(read.error(), std::errc::operation_canceled);
    };
    run(program());
}

TEST(TcpStream, UnreadDataDoesNotKeepTheLoopBusy) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        std::string byte(1, ' ');
        // Registers the descriptor, then leaves a byte unread.
        EXPECT_FALSE(co_await penstock::timeout(1ms, pair.far.read(byte)));
        expect(co_await pair.near.write_all("xy"));
        expect(co_await penstock::sleep_for(2ms));
        penstock::EventLoop& loop = penstock::EventLoop::current();
        EXPECT_EQ(loop.poller().wait(0), 0);
        expect(co_await pair.far.read_exactly(byte));
        EXPECT_EQ(byte, "x");
        expect(co_await pair.far.read_exactly(byte));
        EXPECT_EQ(byte, "y");
    };
    run(program());
}

TEST(TcpStream, ARefusedConnectionIsAnError) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        net::TcpListener listener = penstock::testing::listen_on_loopback();
        const net::Endpoint endpoint = expect(listener.local_endpoint());
        listener.close();
        EXPECT_EQ((co_await net::TcpStream::connect(endpoint)).error(),
                  std::errc::connection_refused);
    };
    run(program());
}

TEST(TcpStream, SmallWritesAreNotDelayed) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        EXPECT_EQ(pair.near.no_delay(), true);
        EXPECT_EQ(pair.far.no_delay(), true);
        expect(pair.far.no_delay(false));
        EXPECT_EQ(pair.far.no_delay(), false);
    };
    run(program());
}

TEST(TcpStream, ResetIsSeenByTheOtherEnd) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        pair.near.reset();
        EXPECT_EQ((co_await pair.far.receive()).error(), std::errc::connection_reset);
    };
    run(program());
}

TEST(TcpStream, OutlivesItsLoopAndServesAnother) {
    const Watchdog watchdog;
    TcpPair pair = run(connect_pair());
    const auto talk = [](TcpPair& ends) -> Task<std::string> {
        std::string buffer(2, ' ');
        const auto write = [](net::TcpStream& stream) -> Task<Result<>> {
            (void)co_await penstock::yield();
            co_return co_await stream.write_all("ok");
        };
        expect(co_await penstock::all(ends.far.read_exactly(buffer), write(ends.near)));
        co_return buffer;
    };
    EXPECT_EQ(run(talk(pair)), "ok");
    EXPECT_EQ(run(talk(pair)), "ok");
}

TEST(TcpStream, KeepAliveTakesWholePositiveSeconds) {
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        EXPECT_EQ(pair.near.keep_alive(), false);
        expect(pair.near.keep_alive(30s, 5s, 3));
        EXPECT_EQ(pair.near.keep_alive(), true);
        expect(pair.near.keep_alive(false));
        EXPECT_EQ(pair.near.keep_alive(), false);
        EXPECT_EQ(pair.near.keep_alive(0s, 5s, 3).error(), std::errc::invalid_argument);
        EXPECT_EQ(pair.near.keep_alive(30s, 5s, -1).error(), std::errc::invalid_argument);
        EXPECT_EQ(pair.near.keep_alive(std::chrono::hours(24), 5s, 3).error(),
                  std::errc::invalid_argument);
    };
    run(program());
}

/// An unnamed file with known bytes.
class PatternFile {
public:
    explicit PatternFile(std::string_view text) : file_(std::tmpfile()) {
        EXPECT_EQ(std::fwrite(text.data(), 1, text.size(), file_), text.size());
        EXPECT_EQ(std::fflush(file_), 0);
    }
    ~PatternFile() { std::fclose(file_); }
    PatternFile(const PatternFile&) = delete;
    PatternFile& operator=(const PatternFile&) = delete;

    [[nodiscard]] int descriptor() const { return ::fileno(file_); }

private:
    std::FILE* file_;
};

TEST(TcpStream, SendsAFilesPart) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        const std::string text = pattern(6'000'000);
        const PatternFile file(text);
        const auto send = [](net::TcpStream& stream, int descriptor,
                             std::size_t size) -> Task<Result<std::uint64_t>> {
            const auto sent = co_await stream.send_file(descriptor, 1000, size);
            expect(stream.shutdown());
            co_return sent;
        };
        const auto both = expect(co_await penstock::all(
            send(pair.near, file.descriptor(), text.size() - 3000), read_to_the_end(pair.far)));
        EXPECT_EQ(std::get<0>(both), text.size() - 3000);
        EXPECT_EQ(std::get<1>(both), text.substr(1000, text.size() - 3000));
    };
    run(program());
}

TEST(TcpStream, SendsAFileUpToItsEnd) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        const PatternFile file("short");
        EXPECT_EQ(co_await pair.near.send_file(file.descriptor(), 2, 1000), 3U);
        EXPECT_EQ(co_await pair.near.send_file(file.descriptor(), 9, 1000), 0U);
        expect(pair.near.shutdown());
        EXPECT_EQ(co_await read_to_the_end(pair.far), "ort");
    };
    run(program());
}

TEST(TcpStream, ReadsIntoSeveralParts) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        TcpPair pair = co_await connect_pair();
        std::array<char, 2> head{};
        std::array<char, 0> nothing{};
        std::string body(6, ' ');
        expect(co_await pair.near.write_all("abcde"));
        EXPECT_EQ(co_await pair.far.read(head, nothing, body), 5U);
        EXPECT_EQ(std::string(head.data(), 2) + body, "abcde   ");

        const auto write_in_pieces = [](net::TcpStream& stream) -> Task<Result<>> {
            for (const char* piece : {"0", "12", "345", "67"}) {
                expect(co_await stream.write_all(piece));
                (void)co_await penstock::yield();
                (void)co_await penstock::yield();
            }
            co_return Result<>();
        };
        expect(co_await penstock::all(pair.far.read_exactly(head, nothing, body),
                                      write_in_pieces(pair.near)));
        EXPECT_EQ(std::string(head.data(), 2) + body, "01234567");

        expect(co_await pair.near.write_all("x"));
        expect(pair.near.shutdown());
        EXPECT_EQ((co_await pair.far.read_exactly(head, body)).error(),
                  penstock::Error::end_of_stream);
        EXPECT_EQ(co_await pair.far.read(head, body), 0U);
        EXPECT_TRUE(co_await pair.far.read_exactly(nothing, nothing));
    };
    run(program());
}

} // namespace
