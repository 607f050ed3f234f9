#include <penstock/stream/memory_stream.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/bridge/block_on.hpp>
#include <penstock/stream/buf_reader.hpp>
#include <penstock/stream/copy.hpp>
#include <penstock/stream/read_all.hpp>
#include <penstock/stream/stream.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/timeout.hpp>

#include "support/watchdog.hpp"

namespace {

using penstock::BufReader;
using penstock::Bytes;
using penstock::HalfClosable;
using penstock::MemoryStream;
using penstock::read_all;
using penstock::read_all_text;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::testing::Watchdog;

static_assert(HalfClosable<MemoryStream>);

std::vector<std::byte> pattern(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
        bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
    }
    return bytes;
}

Task<Result<>> write_and_end(MemoryStream& stream, Bytes bytes) {
    Result<> written = co_await stream.write_all(bytes);
    EXPECT_TRUE(stream.shutdown());
    co_return written;
}

TEST(MemoryStream, CarriesBytesBothWaysThroughASmallBuffer) {
    const Watchdog watchdog;
    const std::vector<std::byte> sent = pattern(10'000);
    for (const std::size_t capacity : {1, 3, 4096, 100'000}) {
        const auto program = [&]() -> Task<> {
            auto [client, server] = MemoryStream::pair(capacity);
            const auto echo = [&]() -> Task<Result<>> {
                const auto copied = co_await penstock::copy(server, server);
                EXPECT_EQ(copied, sent.size());
                EXPECT_TRUE(server.shutdown());
                co_return Result<>();
            };
            const auto all =
                co_await penstock::all(echo(), write_and_end(client, sent), read_all(client));
            EXPECT_EQ(std::get<2>(*all), sent);
        };
        run(program());
    }
}

TEST(MemoryStream, ReadsWhatIsThereBeforeTheEnd) {
    const auto program = []() -> Task<> {
        auto [client, server] = MemoryStream::pair();
        EXPECT_TRUE(co_await client.write_all("last words"));
        client.close();
        EXPECT_EQ((co_await server.write_all("x")).error(), std::errc::broken_pipe);
        EXPECT_EQ(co_await read_all_text(server), "last words");
        EXPECT_EQ((co_await client.write_all("x")).error(), std::errc::broken_pipe);
        std::array<std::byte, 1> byte{};
        EXPECT_EQ(co_await client.read(byte), 0U);
    };
    run(program());
}

TEST(MemoryStream, AWaitingWriterIsWokenByTheClosing) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        auto [client, server] = MemoryStream::pair(2);
        const auto closes = [&]() -> Task<Result<>> {
            server.close();
            co_return Result<>();
        };
        const auto both = co_await penstock::all(client.write_all("too much"), closes());
        EXPECT_EQ(both.error(), std::errc::broken_pipe);
    };
    run(program());
}

TEST(MemoryStream, ACancelledReadHasConsumedNothing) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        auto [client, server] = MemoryStream::pair();
        std::array<char, 8> text{};
        const auto late =
            co_await penstock::timeout(std::chrono::milliseconds(1), server.read(text));
        EXPECT_EQ(late.error(), std::errc::timed_out);
        EXPECT_TRUE(co_await client.write_all("text"));
        EXPECT_EQ(co_await server.read(text), 4U);
    };
    run(program());
}

TEST(MemoryStream, ConnectsTwoThreads) {
    const Watchdog watchdog;
    auto [here, there] = MemoryStream::pair(100);
    const std::vector<std::byte> sent = pattern(100'000);
    std::thread writer([&] { EXPECT_TRUE(penstock::block_on(write_and_end(there, sent))); });
    EXPECT_EQ(penstock::block_on(read_all(here)), sent);
    writer.join();
}

TEST(MemoryStream, MayBeMovedToItself) {
    const auto program = []() -> Task<> {
        auto [client, server] = MemoryStream::pair();
        auto& same = client;
        client = std::move(same);
        EXPECT_TRUE(co_await client.write_all("text"));
        client.close();
        EXPECT_EQ(co_await read_all_text(server), "text");
    };
    run(program());
}

TEST(MemoryStream, RefusesNoCapacity) {
    EXPECT_THROW((void)MemoryStream::pair(0), std::invalid_argument);
}

TEST(ReadAll, StopsAtItsLimit) {
    const auto program = []() -> Task<> {
        for (const std::size_t limit : {9, 10, 11}) {
            auto [client, server] = MemoryStream::pair();
            EXPECT_TRUE(co_await client.write_all("ten bytes."));
            EXPECT_TRUE(client.shutdown());
            const Result<std::string> text = co_await read_all_text(server, limit);
            if (limit < 10) {
                EXPECT_EQ(text.error(), std::errc::message_size);
            } else {
                EXPECT_EQ(text, "ten bytes.");
            }
        }
    };
    run(program());
}

TEST(ReadAll, TakesTheLargestLimits) {
    const auto program = []() -> Task<> {
        for (const std::size_t limit : {SIZE_MAX - 1, SIZE_MAX}) {
            auto [client, server] = MemoryStream::pair();
            EXPECT_TRUE(co_await client.write_all("ten bytes."));
            EXPECT_TRUE(client.shutdown());
            EXPECT_EQ(co_await read_all_text(server, limit), "ten bytes.");
        }
    };
    run(program());
}

TEST(BufReaderPeek, ShowsBytesWithoutConsumingThem) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        auto [client, server] = MemoryStream::pair();
        BufReader reader(server, 4);
        EXPECT_TRUE(co_await client.write_all("GET /path"));
        const auto first = co_await reader.peek();
        EXPECT_GE(first->size(), 1U);
        const auto more = co_await reader.peek(9);
        EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(more->data()), 9), "GET /path");
        std::array<char, 3> method{};
        EXPECT_TRUE(co_await reader.read_exactly(method));
        EXPECT_TRUE(client.shutdown());
        EXPECT_EQ((co_await reader.peek(100))->size(), 6U); // the end comes first
        EXPECT_EQ((co_await reader.peek(100))->size(), 6U);
    };
    run(program());
}

} // namespace
