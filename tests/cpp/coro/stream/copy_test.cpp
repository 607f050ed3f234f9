// Copying from stream to stream.

#include <penstock/fs/file.hpp>
#include <penstock/net/unix_stream.hpp>
#include <penstock/stream/copy.hpp>
#include <penstock/stream/pipe.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "support/temporary_folder.hpp"

namespace {

using penstock::all;
using penstock::copy;
using penstock::copy_bidirectional;
using penstock::PipeEnds;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::fs::File;
using penstock::net::UnixStream;
using penstock::testing::TemporaryFolder;

TEST(Copy, CopiesAFileThroughAPipe) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        std::string content;
        for (int i = 0; i < 100'000; ++i) { // more than the pipe holds
            content += std::to_string(i);
        }
        File source = (co_await File::open(folder.file("from", content))).value();
        File target =
            (co_await File::open(folder.path("to"), penstock::fs::OpenOptions::writing())).value();
        PipeEnds pipe = penstock::make_pipe().value();
        const auto send = [&]() -> Task<Result<std::uint64_t>> {
            const Result<std::uint64_t> sent = co_await copy(source, pipe.writer);
            pipe.writer.close();
            co_return sent;
        };
        EXPECT_EQ(co_await all(send(), copy(pipe.reader, target)),
                  (std::tuple(content.size(), content.size())));
        EXPECT_EQ(folder.content("to"), content);
    };
    run(body());
}

TEST(Copy, AnErrorEndsIt) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        File source = (co_await File::open(folder.file("from", "x"))).value();
        PipeEnds pipe = penstock::make_pipe().value();
        pipe.reader.close();
        EXPECT_EQ((co_await copy(source, pipe.writer)).error(), std::errc::broken_pipe);
    };
    run(body());
}

TEST(Copy, CopiesInBothDirectionsUntilBothHaveEnded) {
    const auto body = []() -> Task<void> {
        auto [client, proxy_to_client] = UnixStream::pair().value();
        auto [proxy_to_server, server] = UnixStream::pair().value();
        const auto ask = [&]() -> Task<Result<>> {
            EXPECT_TRUE(co_await client.write_all("question"));
            EXPECT_TRUE(client.shutdown());
            std::array<char, 6> answer{};
            EXPECT_TRUE(co_await client.read_exactly(answer));
            EXPECT_EQ(std::string(answer.data(), 6), "answer");
            EXPECT_EQ(co_await client.read(answer), 0U);
            co_return Result<>();
        };
        const auto reply = [&]() -> Task<Result<>> {
            std::array<char, 8> question{};
            EXPECT_TRUE(co_await server.read_exactly(question));
            std::array<char, 1> rest{};
            EXPECT_EQ(co_await server.read(rest), 0U); // one direction ends, the other continues
            EXPECT_TRUE(co_await server.write_all("answer"));
            EXPECT_TRUE(server.shutdown());
            co_return Result<>();
        };
        const auto done =
            co_await all(ask(), reply(), copy_bidirectional(proxy_to_client, proxy_to_server));
        EXPECT_TRUE(done);
        EXPECT_EQ(std::get<2>(*done), (std::tuple(8U, 6U)));
    };
    run(body());
}

} // namespace
