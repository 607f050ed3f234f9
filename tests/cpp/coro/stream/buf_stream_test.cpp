// Buffered readers and writers, over pipes and over a scripted reader.

#include <penstock/stream/buf_reader.hpp>
#include <penstock/stream/buf_writer.hpp>
#include <penstock/stream/pipe.hpp>
#include <penstock/task/run.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace {

using penstock::BufReader;
using penstock::BufWriter;
using penstock::Error;
using penstock::failure;
using penstock::make_pipe;
using penstock::MutableBytes;
using penstock::PipeEnds;
using penstock::Result;
using penstock::run;
using penstock::Task;

static_assert(penstock::Reader<penstock::PipeReader>);
static_assert(penstock::Writer<penstock::PipeWriter>);
static_assert(!penstock::Stream<penstock::PipeReader>);
static_assert(penstock::Reader<BufReader<penstock::PipeReader&>>);
static_assert(penstock::Writer<BufWriter<penstock::PipeWriter>>);

/// Returns a text in pieces of given sizes, then an error or the end.
class Script {
public:
    Script(std::string text, std::vector<std::size_t> pieces, std::error_code end = {})
        : text_(std::move(text)), pieces_(std::move(pieces)), end_(end) {}

    Task<Result<std::size_t>> read(MutableBytes into) {
        if (at_ == text_.size()) {
            if (end_) {
                co_return failure(end_);
            }
            co_return 0U;
        }
        std::size_t count = pieces_.empty() ? text_.size() : pieces_[piece_++ % pieces_.size()];
        count = std::min({count, into.size(), text_.size() - at_});
        std::transform(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                       text_.begin() + static_cast<std::ptrdiff_t>(at_ + count), into.begin(),
                       [](char c) { return static_cast<std::byte>(c); });
        at_ += count;
        co_return count;
    }

private:
    std::string text_;
    std::vector<std::size_t> pieces_;
    std::error_code end_;
    std::size_t at_ = 0;
    std::size_t piece_ = 0;
};

TEST(BufReader, LinesEndWithOrWithoutCarriageReturn) {
    const auto body = []() -> Task<void> {
        // A carriage return without a line feed belongs to the line.
        BufReader reader(Script("one\ntwo\r\n\n\rthree\r\nlast\r", {1, 5, 2}));
        for (const std::string_view expected : {"one", "two", "", "\rthree", "last\r"}) {
            EXPECT_EQ((co_await reader.line()).value(), expected);
        }
        EXPECT_EQ((co_await reader.line()).value(), std::nullopt);
        EXPECT_EQ((co_await reader.line()).value(), std::nullopt);
    };
    run(body());
}

TEST(BufReader, ADelimiterMayArriveInPieces) {
    const auto body = []() -> Task<void> {
        BufReader reader(Script("head\r\n\r\nbody", {1}), 4);
        EXPECT_EQ(co_await reader.read_until("\r\n\r\n"), "head\r\n\r\n");
        EXPECT_EQ((co_await reader.read_until("\r\n\r\n")).error(), Error::end_of_stream);
        EXPECT_EQ(reader.buffered().size(), 4U); // the rest is not lost
        std::array<char, 4> rest{};
        EXPECT_TRUE(co_await reader.read_exactly(rest));
        EXPECT_EQ(std::string(rest.data(), 4), "body");
    };
    run(body());
}

TEST(BufReader, ALineThatIsTooLongIsRefusedAndKept) {
    const auto body = []() -> Task<void> {
        BufReader reader(Script(std::string(100, 'x') + "\nshort\n", {}), 16);
        EXPECT_EQ((co_await reader.line(50)).error(), std::errc::message_size);
        EXPECT_EQ((co_await reader.line(101)).value(), std::string(100, 'x'));
        EXPECT_EQ((co_await reader.line(6)).value(), "short");
    };
    run(body());
}

TEST(BufReader, AnErrorOfTheSourceIsPassedOn) {
    const auto body = []() -> Task<void> {
        BufReader reader(Script("half", {}, std::make_error_code(std::errc::connection_reset)));
        EXPECT_EQ((co_await reader.line()).error(), std::errc::connection_reset);
        std::array<char, 8> buffer{};
        EXPECT_EQ(co_await reader.read(buffer), 4U);
        EXPECT_EQ((co_await reader.read(buffer)).error(), std::errc::connection_reset);
    };
    run(body());
}

TEST(BufReader, YieldsTheSameBytesForAnyPieces) {
    std::mt19937 random(7);
    const auto at_most = [&](std::size_t limit) {
        return std::uniform_int_distribution<std::size_t>(1, limit)(random);
    };
    for (int round = 0; round < 300; ++round) {
        std::string text;
        for (std::size_t i = at_most(400); i > 0; --i) {
            text += "ab\r\n"[at_most(4) - 1];
        }
        std::vector<std::size_t> pieces;
        for (std::size_t i = at_most(8); i > 0; --i) {
            pieces.push_back(at_most(20));
        }
        BufReader reader(Script(text, pieces), at_most(32));
        std::string seen;
        const auto body = [&]() -> Task<void> {
            std::array<char, 40> buffer{};
            while (seen.size() < text.size()) {
                if (at_most(3) == 1) {
                    const Result<std::string_view> part = co_await reader.read_until("\n");
                    if (part) {
                        EXPECT_TRUE(part->ends_with('\n'));
                        EXPECT_EQ(part->find('\n'), part->size() - 1);
                        seen += *part;
                    } else {
                        EXPECT_EQ(part.error(), Error::end_of_stream);
                        EXPECT_EQ(text.find('\n', seen.size()), std::string::npos);
                    }
                } else if (at_most(2) == 1) {
                    const std::size_t wanted = std::min(at_most(40), text.size() - seen.size());
                    EXPECT_TRUE(co_await reader.read_exactly(MutableBytes(buffer.data(), wanted)));
                    seen.append(buffer.data(), wanted);
                } else {
                    const std::size_t room = at_most(40);
                    const Result<std::size_t> count =
                        co_await reader.read(MutableBytes(buffer.data(), room));
                    EXPECT_TRUE(count && *count > 0);
                    seen.append(buffer.data(), *count);
                }
            }
            EXPECT_EQ(co_await reader.read(buffer), 0U);
        };
        run(body());
        ASSERT_EQ(seen, text);
    }
}

TEST(BufWriter, BuffersSmallWritesUntilFlushed) {
    const auto body = []() -> Task<void> {
        PipeEnds pipe = make_pipe().value();
        BufWriter writer(pipe.writer, 16);
        EXPECT_TRUE(co_await writer.write_all("12345678"));
        EXPECT_TRUE(co_await writer.write_all("abcdefgh"));
        EXPECT_EQ(writer.pending(), 16U);
        EXPECT_TRUE(co_await writer.flush());
        EXPECT_EQ(writer.pending(), 0U);
        std::array<char, 64> buffer{};
        EXPECT_EQ(co_await pipe.reader.read(buffer), 16U);
    };
    run(body());
}

TEST(BufWriter, ALargeWriteFollowsTheBufferedBytes) {
    const auto body = []() -> Task<void> {
        PipeEnds pipe = make_pipe().value();
        BufWriter writer(pipe.writer, 8);
        EXPECT_TRUE(co_await writer.write_all("first"));
        EXPECT_TRUE(co_await writer.write_all(" second"));
        EXPECT_EQ(writer.pending(), 0U);
        std::array<char, 64> buffer{};
        EXPECT_EQ(co_await pipe.reader.read(buffer), 12U);
        EXPECT_EQ(std::string(buffer.data(), 12), "first second");
    };
    run(body());
}

TEST(BufWriter, AFailedFlushEmptiesTheBuffer) {
    const auto body = []() -> Task<void> {
        PipeEnds pipe = make_pipe().value();
        BufWriter writer(std::move(pipe.writer));
        EXPECT_TRUE(co_await writer.write_all("lost"));
        pipe.reader.close();
        EXPECT_EQ((co_await writer.flush()).error(), std::errc::broken_pipe);
        EXPECT_EQ(writer.pending(), 0U);
    };
    run(body());
}

TEST(BufReader, AnEmptyReadConsumesNothing) {
    const auto program = []() -> Task<> {
        BufReader reader(Script("ab", {}));
        EXPECT_EQ(co_await reader.read(MutableBytes()), 0U);
        EXPECT_TRUE(co_await reader.read_exactly(MutableBytes()));
        EXPECT_EQ(co_await reader.fill(), 2U);
        EXPECT_EQ(co_await reader.read(MutableBytes()), 0U);
        EXPECT_TRUE(co_await reader.read_exactly(MutableBytes()));
        EXPECT_EQ(reader.buffered().size(), 2U);
    };
    run(program());
}

} // namespace
