// Two ends of an encrypted connection talk at random, from a seed: over several kinds of streams,
// in both directions at once, and any operation may be cancelled at any time, handshakes included.
// No byte is lost, repeated or changed, an end is told from a cut, and every task ends.

#include <penstock/tls/stream.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/event_loop.hpp>
#include <penstock/net/unix_stream.hpp>
#include <penstock/stream/memory_stream.hpp>
#include <penstock/task/all_settled.hpp>
#include <penstock/task/canceller.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/task/unwrap.hpp>

#include "coro/support/logs.hpp"
#include "coro/tls/tls_test.hpp"
#include "support/stress.hpp"

namespace {

namespace tls = penstock::tls;
using namespace std::chrono_literals;
using penstock::Bytes;
using penstock::Canceller;
using penstock::Chunk;
using penstock::EventLoop;
using penstock::failure;
using penstock::MemoryStream;
using penstock::MutableBytes;
using penstock::Result;
using penstock::Task;
using penstock::testing::connect_pair;
using penstock::testing::expect;
using penstock::testing::Stress;
using penstock::testing::TcpPair;
using penstock::testing::TlsTest;
using penstock::testing::turns;

struct World {
    explicit World(unsigned seed) : random(seed) {}

    unsigned draw(unsigned below) { return static_cast<unsigned>(random()) % below; }

    std::mt19937 random;
    bool cut = false; ///< an end was closed before both were done
};

bool is_cancelled(std::error_code error) {
    return error == std::errc::timed_out || error == std::errc::operation_canceled;
}

Task<> cancel_later(Canceller& canceller, int later) {
    co_await turns(later);
    canceller.cancel();
}

/// Awaits an operation, or cancels it by its deadline or from another task.
template <typename T> Task<Result<T>> disturbed(World& world, Task<Result<T>> operation) {
    switch (world.draw(5)) {
    case 0: {
        const std::chrono::microseconds patience(world.draw(200));
        co_return co_await penstock::timeout(patience, std::move(operation));
    }
    case 1: {
        Canceller canceller;
        auto both = co_await penstock::all_settled(
            penstock::cancellable(canceller, std::move(operation)),
            cancel_later(canceller, static_cast<int>(world.draw(6))));
        co_return std::move(std::get<0>(both));
    }
    default:
        co_return co_await std::move(operation);
    }
}

/// What one end writes and the other one reads. A write begins with a byte that occurs nowhere else
/// and with its number. It may be incomplete if it was cancelled.
class Direction {
public:
    /// The content of the next write.
    std::string begin_write(std::size_t size) {
        const std::size_t number = writes_.size();
        writes_.push_back({.size = size});
        std::string text(size, '\0');
        for (std::size_t i = 0; i < size; ++i) {
            text[i] = byte_of(number, i);
        }
        return text;
    }
    void complete_write() { writes_.back().complete = true; }
    void end() { ended_ = true; }
    [[nodiscard]] bool ended() const { return ended_; }

    void take(Bytes bytes) {
        for (const std::byte each : bytes) {
            take(static_cast<char>(each));
        }
    }

    void expect_all() const {
        ASSERT_FALSE(reads_ && place_ < head);
        expect_none_complete_after(reads_ ? number_ + 1 : 0, writes_.size());
        if (reads_ && writes_[number_].complete) {
            EXPECT_EQ(place_, writes_[number_].size);
        }
    }

private:
    struct Write {
        std::size_t size = 0;
        bool complete = false;
    };
    static constexpr char mark = '\xff';
    static constexpr std::size_t head = 4;

    static char byte_of(std::size_t number, std::size_t place) {
        switch (place) {
        case 0:
            return mark;
        case 1:
        case 2:
        case 3:
            return static_cast<char>(number >> (7 * (place - 1)) & 0x7f);
        default:
            return static_cast<char>((number * 31 + place * 7 + place / 90) & 0x7f);
        }
    }

    void take(char byte) {
        if (byte == mark) {
            next_ = reads_ ? number_ + 1 : 0;
            if (reads_ && writes_[number_].complete) {
                ASSERT_EQ(place_, writes_[number_].size) << "of write " << number_;
            }
            reads_ = true;
            number_ = 0;
            place_ = 1;
            return;
        }
        ASSERT_TRUE(reads_);
        if (place_ < head) {
            number_ |= static_cast<std::size_t>(byte) << (7 * (place_ - 1));
            if (++place_ == head) {
                ASSERT_GE(number_, next_);
                ASSERT_LT(number_, writes_.size());
                expect_none_complete_after(next_, number_);
            }
            return;
        }
        ASSERT_LT(place_, writes_[number_].size);
        ASSERT_EQ(byte, byte_of(number_, place_)) << "write " << number_ << ", byte " << place_;
        ++place_;
    }

    void expect_none_complete_after(std::size_t first, std::size_t end) const {
        for (std::size_t number = first; number < end; ++number) {
            EXPECT_FALSE(writes_[number].complete) << "write " << number << " was lost";
        }
    }

    std::vector<Write> writes_;
    bool ended_ = false;
    bool reads_ = false;
    std::size_t number_ = 0; ///< of the write that is read
    std::size_t next_ = 0;   ///< the least that it may be
    std::size_t place_ = 0;
};

template <typename S> void cut(World& world, tls::Stream<S>& stream) {
    world.cut = true;
    stream.close();
}

/// Whether a cancelled write can be continued.
template <typename S> constexpr bool continues = !std::same_as<S, MemoryStream>;

template <typename S> Task<> write(World& world, tls::Stream<S>& stream, Direction& direction) {
    for (unsigned round = world.draw(12); round > 0; --round) {
        if (world.draw(6) == 0 && stream.version() == "TLSv1.3") {
            const Result<> updated = co_await disturbed(world, stream.update_keys());
            EXPECT_TRUE(updated || world.cut || is_cancelled(updated.error()) ||
                        updated.error() == tls::Error::broken)
                << updated.error().message();
        }
        const std::size_t most = world.draw(4) == 0 ? 200'000 : 3'000;
        const std::string text = direction.begin_write(4 + world.draw(static_cast<unsigned>(most)));
        const std::string_view all = text;
        const std::size_t first = world.draw(static_cast<unsigned>(text.size()));
        const Result<> written = co_await disturbed(
            world, world.draw(2) == 0
                       ? stream.write_all(Bytes(all))
                       : stream.write_all(Bytes(all.substr(0, first)), Bytes(all.substr(first))));
        if (written) {
            direction.complete_write();
        } else if (!is_cancelled(written.error())) {
            EXPECT_TRUE(world.cut || (written.error() == tls::Error::broken && !continues<S>))
                << written.error().message();
            break;
        }
        if (world.draw(100) == 0) {
            cut(world, stream);
            co_return;
        }
        co_await turns(static_cast<int>(world.draw(3)));
    }
    direction.end(); // a cancelled shutdown may have sent it
    for (;;) {
        const Result<> ended = co_await disturbed(world, stream.shutdown());
        if (ended) {
            co_return;
        }
        if (!is_cancelled(ended.error())) {
            EXPECT_TRUE(world.cut || (ended.error() == tls::Error::broken && !continues<S>))
                << ended.error().message();
            cut(world, stream);
            co_return;
        }
    }
}

template <typename S> Task<> read(World& world, tls::Stream<S>& stream, Direction& direction) {
    std::vector<std::byte> buffer(20'000);
    for (;;) {
        if (world.draw(16) == 0) { // a slow reader: the other end's writes wait
            (void)co_await penstock::sleep_for(std::chrono::microseconds(world.draw(2'000)));
        }
        std::size_t size = 0;
        std::error_code error;
        if (world.draw(2) == 0) {
            const auto into = std::span(buffer).first(1 + world.draw(20'000));
            const auto count = co_await disturbed(world, stream.read(MutableBytes(into)));
            size = count.value_or(0);
            error = count ? std::error_code() : count.error();
            direction.take(Bytes(buffer.data(), size));
        } else {
            const auto chunk = co_await disturbed(world, stream.receive());
            size = chunk ? chunk->size() : 0;
            error = chunk ? std::error_code() : chunk.error();
            if (chunk) {
                direction.take(Bytes(chunk->data(), size));
            }
        }
        if (::testing::Test::HasFatalFailure()) {
            cut(world, stream);
            co_return;
        }
        if (!error && size == 0) {
            EXPECT_TRUE(direction.ended());
            direction.expect_all();
            co_return;
        }
        if (error && !is_cancelled(error)) {
            EXPECT_TRUE(world.cut) << error.message();
            co_return;
        }
        co_await turns(static_cast<int>(world.draw(2)));
    }
}

template <typename S>
Task<> converse(World& world, S near, S far, tls::Context client, tls::Context server) {
    using Stream = tls::Stream<S>;
    const bool disturbs = world.draw(4) == 0;
    auto connecting = Stream::connect(std::move(near), std::move(client), "localhost");
    auto accepting = Stream::accept(std::move(far), std::move(server));
    const auto maybe = [&](Task<Result<Stream>> handshake) -> Task<Result<Stream>> {
        if (disturbs) {
            return disturbed(world, std::move(handshake));
        }
        return handshake;
    };
    auto ends =
        co_await penstock::all_settled(maybe(std::move(connecting)), maybe(std::move(accepting)));
    auto& [a, b] = ends;
    if (!a || !b) {
        EXPECT_TRUE(disturbs) << (a ? b : a).error().message();
        co_return;
    }
    Direction there;
    Direction back;
    co_await penstock::all_settled(write(world, *a, there), read(world, *b, there),
                                   write(world, *b, back), read(world, *a, back));
}

Task<> talk(World& world, tls::Context client, tls::Context server) {
    switch (world.draw(3)) {
    case 0: {
        // The server's session tickets must fit, or its handshake waits for a read of the client.
        auto [near, far] = MemoryStream::pair(1'000 + world.draw(100'000));
        co_await converse(world, std::move(near), std::move(far), client, server);
        break;
    }
    case 1: {
        auto [near, far] = expect(penstock::net::UnixStream::pair());
        co_await converse(world, std::move(near), std::move(far), client, server);
        break;
    }
    default: {
        TcpPair pair = co_await connect_pair();
        co_await converse(world, std::move(pair.near), std::move(pair.far), client, server);
    }
    }
}

class TlsStorm : public TlsTest {};

// The threads share the contexts with their sessions.
TEST_F(TlsStorm, ConversationsUnderCancellationAreComplete) {
    const Stress stress(60);
    const tls::Context old = client({.newest = tls::Version::tls_1_2});
    const tls::Context known = client({.identity = authority.sign("DNS:client")});
    const tls::Context inner =
        server({.client_authorities_file = authority.file(), .require_client_certificate = false});
    const tls::Context outer =
        server({.select = [&](std::string_view name) -> std::optional<tls::Context> {
            return name == "localhost" ? std::optional(inner) : std::nullopt;
        }});
    const auto run_programs = [&](unsigned thread) {
        for (unsigned seed = stress.first; seed < stress.end; ++seed) {
            World world(seed * 2 + thread);
            EventLoop loop(EventLoop::Options{.shuffle_seed = seed});
            const tls::Context& clients = world.draw(2) == 0 ? old : known;
            const tls::Context& servers = world.draw(2) == 0 ? inner : outer;
            loop.run(talk(world, clients, servers));
            EXPECT_TRUE(loop.timers().empty()) << "seed " << seed;
            EXPECT_TRUE(loop.tasks().empty()) << "seed " << seed;
            if (HasFailure()) {
                ADD_FAILURE() << "seed " << seed << ", thread " << thread;
                return;
            }
        }
    };
    std::thread other([&] { run_programs(1); });
    run_programs(0);
    other.join();
}

} // namespace
