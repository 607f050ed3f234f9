// Operations live in the frames that wait for them, and freed frames are reused. After a warm-up,
// tasks do not allocate.

#include <array>
#include <string>

#include <gtest/gtest.h>

#include <penstock/penstock.hpp>

#include "coro/support/tcp_pair.hpp"
#include "support/allocations.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::Channel;
using penstock::Chunk;
using penstock::Result;
using penstock::run;
using penstock::Scope;
using penstock::Task;
using penstock::testing::allocations;
using penstock::testing::connect_pair;
using penstock::testing::expect;
using penstock::testing::TcpPair;
using penstock::testing::Watchdog;
namespace net = penstock::net;

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PENSTOCK_SANITIZED
#endif
#endif

/// The number of allocations of a task's later runs on one loop, after a warm-up.
template <typename Body> Task<std::size_t> allocations_of(Body& body) {
    for (int round = 0; round < 3; ++round) {
        co_await body();
    }
    const std::size_t before = allocations.load();
    for (int round = 0; round < 100; ++round) {
        co_await body();
    }
    co_return allocations.load() - before;
}

class CoroutineAllocation : public ::testing::Test {
protected:
    void SetUp() override {
#ifdef PENSTOCK_SANITIZED
        GTEST_SKIP() << "sanitizers take operator new, and frames are not used again under them";
#endif
    }

    const Watchdog watchdog_;
};

TEST_F(CoroutineAllocation, CounterSeesAnAllocation) {
    const auto body = []() -> Task<> {
        const std::string text(1000, 'x');
        EXPECT_EQ(text.size(), 1000U);
        co_return;
    };
    EXPECT_GE(run(allocations_of(body)), 100U);
}

TEST_F(CoroutineAllocation, AwaitingTasks) {
    const auto inner = [](int value) -> Task<int> { co_return value; };
    const auto body = [&]() -> Task<> {
        EXPECT_EQ(co_await inner(1), 1);
        (void)co_await penstock::yield();
    };
    EXPECT_EQ(run(allocations_of(body)), 0U);
}

TEST_F(CoroutineAllocation, SpawningAndJoining) {
    const auto child = []() -> Task<> { (void)co_await penstock::yield(); };
    const auto body = [&]() -> Task<> {
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(child());
            scope.spawn(child());
            co_return;
        });
    };
    EXPECT_EQ(run(allocations_of(body)), 0U);
}

TEST_F(CoroutineAllocation, Combining) {
    const auto child = []() -> Task<Result<int>> {
        (void)co_await penstock::yield();
        co_return 1;
    };
    const auto body = [&]() -> Task<> {
        expect(co_await penstock::all(child(), child()));
        EXPECT_EQ((co_await penstock::race(child(), penstock::sleep_for(1h))).index(), 0U);
        EXPECT_TRUE(co_await penstock::timeout(1h, child()));
        (void)co_await penstock::shield(child());
    };
    EXPECT_EQ(run(allocations_of(body)), 0U);
}

TEST_F(CoroutineAllocation, Sleeping) {
    const auto body = []() -> Task<> {
        expect(co_await penstock::sleep_for(1us));
        EXPECT_FALSE(co_await penstock::timeout(1us, penstock::sleep_for(1h)));
    };
    EXPECT_EQ(run(allocations_of(body)), 0U);
}

TEST_F(CoroutineAllocation, ReadingAndWriting) {
    const auto program = []() -> Task<std::size_t> {
        TcpPair pair = co_await connect_pair();
        const auto answer = [](net::TcpStream& stream) -> Task<Result<>> {
            std::array<char, 4> request{};
            if (Result<> read = co_await stream.read_exactly(request); !read) {
                co_return read;
            }
            co_return co_await stream.write_all("head", request);
        };
        const auto ask = [](net::TcpStream& stream) -> Task<Result<>> {
            (void)co_await penstock::yield(); // so that the answering task waits
            if (Result<> written = co_await stream.write_all("ping"); !written) {
                co_return written;
            }
            const Chunk chunk = expect(co_await stream.receive());
            EXPECT_EQ(chunk.size(), 8U);
            co_return Result<>();
        };
        const auto body = [&]() -> Task<> {
            expect(co_await penstock::all(answer(pair.far), ask(pair.near)));
        };
        co_return co_await allocations_of(body);
    };
    EXPECT_EQ(run(program()), 0U);
}

TEST_F(CoroutineAllocation, ConnectingAndAccepting) {
    const auto program = []() -> Task<std::size_t> {
        net::TcpListener listener = penstock::testing::listen_on_loopback();
        const net::Endpoint endpoint = expect(listener.local_endpoint());
        const auto body = [&]() -> Task<> {
            const auto ends = expect(
                co_await penstock::all(listener.accept(), net::TcpStream::connect(endpoint)));
            EXPECT_TRUE(std::get<0>(ends).is_open());
        };
        co_return co_await allocations_of(body);
    };
    EXPECT_EQ(run(program()), 0U);
}

TEST_F(CoroutineAllocation, ChannelsAndLocks) {
    Channel<int> channel(1);
    penstock::sync::Mutex mutex;
    penstock::sync::Semaphore semaphore(1);
    const auto send = [&]() -> Task<> {
        for (int i = 0; i < 5; ++i) {
            const auto guard = expect(co_await mutex.lock());
            expect(co_await channel.send(i));
        }
    };
    const auto receive = [&]() -> Task<> {
        for (int i = 0; i < 5; ++i) {
            const auto permit = expect(co_await semaphore.acquire());
            EXPECT_EQ(co_await channel.receive(), i);
        }
    };
    const auto body = [&]() -> Task<> { co_await penstock::all(send(), receive()); };
    EXPECT_EQ(run(allocations_of(body)), 0U);
}

TEST_F(CoroutineAllocation, Datagrams) {
    const auto program = []() -> Task<std::size_t> {
        net::UdpSocket receiver = expect(net::UdpSocket::bind(net::Endpoint::loopback(0)));
        net::UdpSocket sender = expect(net::UdpSocket::bind(net::Endpoint::loopback(0)));
        const net::Endpoint to = expect(receiver.local_endpoint());
        const std::array<net::OutgoingDatagram, 2> two{
            {{.bytes = "a", .to = to}, {.bytes = "b", .to = to}}};
        net::DatagramBatch batch(4, 64);
        std::array<char, 64> buffer{};
        const auto receive = [&]() -> Task<> {
            EXPECT_EQ(expect(co_await receiver.receive(buffer)).size, 1U);
            EXPECT_EQ(co_await receiver.receive(batch), 2U);
        };
        const auto send = [&]() -> Task<> {
            (void)co_await penstock::yield(); // so that the receiver waits
            expect(co_await sender.send_to("x", to));
            (void)co_await penstock::yield();
            expect(co_await sender.send(two));
        };
        const auto body = [&]() -> Task<> { co_await penstock::all(receive(), send()); };
        co_return co_await allocations_of(body);
    };
    EXPECT_EQ(run(program()), 0U);
}

TEST_F(CoroutineAllocation, PipesAndBuffers) {
    const auto program = []() -> Task<std::size_t> {
        penstock::PipeEnds pipe = expect(penstock::make_pipe());
        penstock::BufReader reader(pipe.reader);
        penstock::BufWriter writer(pipe.writer);
        const auto body = [&]() -> Task<> {
            expect(co_await writer.write_all("one\ntw"));
            expect(co_await writer.write_all("o\n"));
            expect(co_await writer.flush());
            EXPECT_EQ(expect(co_await reader.line()).value_or(""), "one");
            EXPECT_EQ(expect(co_await reader.line()).value_or(""), "two");
        };
        co_return co_await allocations_of(body);
    };
    EXPECT_EQ(run(program()), 0U);
}

TEST_F(CoroutineAllocation, OpenFiles) {
    const penstock::testing::TemporaryFolder folder;
    const std::string path = folder.file("file", "content");
    const auto program = [&]() -> Task<std::size_t> {
        penstock::fs::File file = expect(co_await penstock::fs::File::open(path, {.write = true}));
        std::array<char, 16> buffer{};
        const auto body = [&]() -> Task<> {
            expect(co_await file.write_all_at(0, "CONTENT"));
            EXPECT_EQ(co_await file.read_at(0, buffer), 7U);
        };
        co_return co_await allocations_of(body);
    };
    EXPECT_EQ(run(program()), 0U);
}

} // namespace
