// Reading and writing: sizes, cancellation, more than one task.

#include <penstock/tls/stream.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <openssl/x509_vfy.h>

#include <penstock/net/unix_stream.hpp>
#include <penstock/stream/memory_stream.hpp>
#include <penstock/stream/read_all.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/task/unwrap.hpp>

#include "coro/tls/tls_test.hpp"

namespace {

namespace tls = penstock::tls;
using namespace std::chrono_literals;
using penstock::Bytes;
using penstock::Chunk;
using penstock::MemoryStream;
using penstock::MutableBytes;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::unwrap;
using penstock::net::TcpStream;
using penstock::net::UnixStream;
using penstock::testing::connect_pair;
using penstock::testing::pattern;
using penstock::testing::shake_hands;
using penstock::testing::TcpPair;
using penstock::testing::TlsPair;
using penstock::testing::TlsTest;

class TlsTransfer : public TlsTest {
protected:
    Task<Result<TlsPair<TcpStream>>> over_tcp() {
        TcpPair tcp = co_await connect_pair();
        co_return co_await shake_hands(std::move(tcp.near), std::move(tcp.far), client(), server());
    }

    Task<Result<TlsPair<MemoryStream>>> in_memory(std::size_t capacity = 64'000) {
        auto [near, far] = MemoryStream::pair(capacity);
        co_return co_await shake_hands(std::move(near), std::move(far), client(), server());
    }
};

template <typename S> Task<Result<std::vector<std::byte>>> receive_all(tls::Stream<S>& stream) {
    std::vector<std::byte> received;
    for (;;) {
        const Chunk chunk = co_await unwrap(stream.receive());
        if (chunk.empty()) {
            co_return received;
        }
        received.insert(received.end(), chunk.begin(), chunk.end());
    }
}

template <typename S> Task<Result<>> send_and_end(tls::Stream<S>& stream, Bytes bytes) {
    co_await unwrap(stream.write_all(bytes));
    co_return co_await stream.shutdown();
}

template <typename S> Task<Result<>> carries_huge_writes(TlsPair<S> pair) {
    const std::vector<std::byte> sent = pattern(20'000'000);
    const auto all = co_await unwrap(
        penstock::all(send_and_end(pair.client, sent), send_and_end(pair.server, sent),
                      receive_all(pair.client), penstock::read_all(pair.server)));
    EXPECT_TRUE(std::get<2>(all) == sent);
    EXPECT_TRUE(std::get<3>(all) == sent);
    co_return Result<>();
}

TEST_F(TlsTransfer, CarriesHugeWritesBothWaysAtOnce) {
    const auto program = [&]() -> Task<Result<>> {
        co_await unwrap(carries_huge_writes(co_await unwrap(over_tcp())));
        co_await unwrap(carries_huge_writes(co_await unwrap(in_memory())));
        auto [near, far] = co_await unwrap(UnixStream::pair());
        co_return co_await carries_huge_writes(
            co_await unwrap(shake_hands(std::move(near), std::move(far), client(), server())));
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(TlsTransfer, EmptyWritesAndReadsTransferNothing) {
    const auto program = [&]() -> Task<Result<>> {
        auto pair = co_await unwrap(over_tcp());
        co_await unwrap(pair.client.write_all(""));
        co_await unwrap(pair.client.write_all("", Bytes(), ""));
        EXPECT_EQ(co_await unwrap(pair.server.read(MutableBytes())), 0U);
        co_await unwrap(pair.client.write_all("", "x", ""));
        const Chunk chunk = co_await unwrap(pair.server.receive());
        EXPECT_EQ(chunk.size(), 1U);
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(TlsTransfer, PartsOfAllSizesArriveInOrder) {
    const auto program = [&]() -> Task<Result<>> {
        auto pair = co_await unwrap(over_tcp());
        const std::vector<std::byte> bytes = pattern(200'000);
        for (const std::size_t first : {0U, 1U, 1024U, 1025U, 16'384U, 16'385U, 70'000U}) {
            for (const std::size_t second : {0U, 5U, 15'360U, 65'536U}) {
                for (const std::size_t third : {0U, 1024U, 1025U, 16'384U}) {
                    const Bytes a(bytes.data(), first);
                    const Bytes b(bytes.data() + first, second);
                    const Bytes c(bytes.data() + first + second, third);
                    std::vector<std::byte> received;
                    const auto receive = [&]() -> Task<Result<>> {
                        while (received.size() < first + second + third) {
                            const Chunk chunk = co_await unwrap(pair.server.receive());
                            received.insert(received.end(), chunk.begin(), chunk.end());
                        }
                        co_return Result<>();
                    };
                    co_await unwrap(penstock::all(pair.client.write_all(a, b, c), receive()));
                    EXPECT_TRUE(std::ranges::equal(received,
                                                   std::span(bytes).first(first + second + third)))
                        << first << " " << second << " " << third;
                }
            }
        }
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(TlsTransfer, ASecondReaderOrWriterIsRefused) {
    const auto program = [&]() -> Task<Result<>> {
        auto silent = co_await unwrap(in_memory());    // its client waits for data
        auto full = co_await unwrap(in_memory(1'000)); // its server waits for room
        std::array<char, 10> into{};
        const auto busy = [&]() -> Task<Result<>> {
            constexpr auto refusal = std::errc::device_or_resource_busy;
            EXPECT_EQ((co_await silent.client.read(into)).error(), refusal);
            EXPECT_EQ((co_await silent.client.receive()).error(), refusal);
            EXPECT_EQ((co_await full.server.write_all("x")).error(), refusal);
            EXPECT_EQ((co_await full.server.shutdown()).error(), refusal);
            EXPECT_EQ((co_await full.server.update_keys()).error(), refusal);
            co_return penstock::failure(std::errc::io_error); // ends the other two
        };
        const std::vector<std::byte> bytes = pattern(100'000);
        const auto waits = [&]() -> Task<Result<>> {
            std::array<char, 10> also{};
            const auto count = co_await silent.client.read(also);
            co_return count ? Result<>() : penstock::failure(count.error());
        };
        EXPECT_EQ((co_await penstock::all(waits(), full.server.write_all(bytes), busy())).error(),
                  std::errc::io_error);
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(TlsTransfer, ACancelledTaskTransfersNothing) {
    const auto program = [&]() -> Task<Result<>> {
        auto pair = co_await unwrap(over_tcp());
        co_await unwrap(pair.server.write_all("for later"));
        const auto transfers = [&]() -> Task<Result<>> {
            (void)co_await penstock::sleep_for(1h); // until it is cancelled
            EXPECT_EQ((co_await pair.client.write_all("x")).error(), std::errc::operation_canceled);
            EXPECT_EQ((co_await pair.client.receive()).error(), std::errc::operation_canceled);
            EXPECT_EQ((co_await pair.client.update_keys()).error(), std::errc::operation_canceled);
            EXPECT_EQ((co_await pair.client.shutdown()).error(), std::errc::operation_canceled);
            co_return Result<>();
        };
        (void)co_await penstock::timeout(1us, transfers());
        co_await unwrap(pair.client.write_all("after"));
        const Chunk chunk = co_await unwrap(pair.client.receive());
        EXPECT_EQ(chunk.size(), 9U);
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

// Over a socket the library knows what was sent.
TEST_F(TlsTransfer, ACancelledWriteOverTcpCanBeFollowedByAnother) {
    const auto program = [&]() -> Task<Result<>> {
        auto pair = co_await unwrap(over_tcp());
        const std::vector<std::byte> bytes = pattern(10'000'000); // more than the sockets hold
        EXPECT_EQ((co_await penstock::timeout(5ms, pair.client.write_all(bytes))).error(),
                  std::errc::timed_out);
        const auto all = co_await unwrap(
            penstock::all(send_and_end(pair.client, "the end"), receive_all(pair.server)));
        const auto& received = std::get<1>(all);
        EXPECT_GT(received.size(), 7U);
        const std::size_t sent = received.size() - 7;
        EXPECT_LT(sent, bytes.size());
        EXPECT_TRUE(std::equal(received.begin(), received.end() - 7, bytes.begin()));
        EXPECT_EQ(std::string(reinterpret_cast<const char*>(received.data()) + sent, 7), "the end");
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(TlsTransfer, AStreamIsALayerOfAnother) {
    const auto program = [&]() -> Task<Result<>> {
        auto outer = co_await unwrap(over_tcp());
        using Outer = tls::Stream<TcpStream>;
        auto inner =
            co_await unwrap(shake_hands<Outer&>(outer.client, outer.server, client(), server()));
        const std::vector<std::byte> sent = pattern(300'000);
        const auto all = co_await unwrap(
            penstock::all(send_and_end(inner.client, sent), receive_all(inner.server)));
        EXPECT_TRUE(std::get<1>(all) == sent);
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(TlsTransfer, VerifiesByTheSystemsAuthorities) {
    const auto program = [&]() -> Task<Result<>> {
        const tls::Context servers = server();
        const tls::Context strangers = tls::Context::client().value();
        EXPECT_EQ((co_await refusal(strangers, servers, "localhost")).category(),
                  tls::certificate_category());
        ::setenv("SSL_CERT_FILE", authority.file().c_str(), 1);
        const tls::Context friends = tls::Context::client().value();
        ::unsetenv("SSL_CERT_FILE");
        EXPECT_EQ(co_await refusal(friends, servers, "localhost"), std::error_code());
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

} // namespace
