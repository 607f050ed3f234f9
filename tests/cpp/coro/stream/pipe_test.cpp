// Pipes: order, the end of the stream, a closed reader.

#include <penstock/stream/pipe.hpp>
#include <penstock/task/run.hpp>

#include <array>
#include <csignal>
#include <cstddef>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

namespace {

using penstock::Bytes;
using penstock::Error;
using penstock::make_pipe;
using penstock::OwnedDescriptor;
using penstock::PipeEnds;
using penstock::PipeReader;
using penstock::Result;
using penstock::run;
using penstock::Task;

TEST(Pipe, IsReadUntilTheWriterCloses) {
    const auto body = []() -> Task<void> {
        PipeEnds pipe = make_pipe().value();
        EXPECT_TRUE(co_await pipe.writer.write_all("head ", std::string("body")));
        std::array<char, 9> buffer{};
        EXPECT_TRUE(co_await pipe.reader.read_exactly(buffer));
        EXPECT_EQ(std::string(buffer.data(), buffer.size()), "head body");
        pipe.writer.close();
        EXPECT_EQ(co_await pipe.reader.read(buffer), 0U);
        EXPECT_EQ((co_await pipe.reader.read_exactly(buffer)).error(), Error::end_of_stream);
    };
    run(body());
}

TEST(Pipe, ManyPartsAreWrittenInOrder) {
    const auto body = []() -> Task<void> {
        PipeEnds pipe = make_pipe().value();
        std::vector<std::string> texts;
        std::string all;
        for (int i = 0; i < 150; ++i) { // more than one call takes
            texts.push_back(std::to_string(i) + (i % 3 == 0 ? "" : ","));
            all += texts.back();
        }
        const std::vector<Bytes> parts(texts.begin(), texts.end());
        EXPECT_TRUE(co_await pipe.writer.write_all(std::span(parts)));
        std::vector<char> buffer(all.size());
        EXPECT_TRUE(co_await pipe.reader.read_exactly(buffer));
        EXPECT_EQ(std::string(buffer.data(), buffer.size()), all);
    };
    run(body());
}

TEST(Pipe, SocketsOfMessagesAreNotAdopted) {
    for (const int type : {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}) {
        std::array<int, 2> ends{};
        EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()), 0);
        const auto reader = PipeReader::adopt(OwnedDescriptor(ends[0]));
        const auto writer = penstock::PipeWriter::adopt(OwnedDescriptor(ends[1]));
        if (type == SOCK_STREAM) {
            EXPECT_TRUE(reader && writer);
        } else {
            EXPECT_EQ(reader.error(), std::errc::wrong_protocol_type);
            EXPECT_EQ(writer.error(), std::errc::wrong_protocol_type);
        }
    }
}

TEST(Pipe, AClosedReaderIsAnErrorAndNoSignal) {
    // SIGPIPE has its default action, which would end this program.
    ASSERT_NE(std::signal(SIGPIPE, SIG_DFL), SIG_ERR);
    const auto body = []() -> Task<void> {
        PipeEnds pipe = make_pipe().value();
        pipe.reader.close();
        EXPECT_EQ((co_await pipe.writer.write_all("x")).error(), std::errc::broken_pipe);
        EXPECT_EQ((co_await pipe.writer.write("x")).error(), std::errc::broken_pipe);
    };
    run(body());
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}

TEST(Pipe, AnAdoptedDescriptorBecomesNonBlocking) {
    const auto body = []() -> Task<void> {
        std::array<int, 2> ends{};
        EXPECT_EQ(::pipe(ends.data()), 0);
        const OwnedDescriptor writing(ends[1]);
        PipeReader reader = PipeReader::adopt(OwnedDescriptor(ends[0])).value();
        EXPECT_NE(::fcntl(reader.native_handle(), F_GETFL) & O_NONBLOCK, 0);
        EXPECT_EQ(::write(writing.get(), "ab", 2), 2);
        std::array<char, 8> buffer{};
        EXPECT_EQ(co_await reader.read(buffer), 2U);
    };
    run(body());
    EXPECT_EQ(PipeReader::adopt(OwnedDescriptor()).error(), std::errc::bad_file_descriptor);
}

TEST(Pipe, AClosedEndIsAnError) {
    const auto body = []() -> Task<void> {
        PipeEnds pipe;
        std::array<char, 1> buffer{};
        EXPECT_EQ((co_await pipe.reader.read(buffer)).error(), std::errc::bad_file_descriptor);
        EXPECT_EQ((co_await pipe.writer.write_all("x")).error(), std::errc::bad_file_descriptor);
        EXPECT_EQ(pipe.reader.native_handle(), -1);
    };
    run(body());
}

} // namespace
