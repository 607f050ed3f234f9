// Tasks are cancelled, closed and interrupted by exceptions at random times and in random orders,
// from a seed. Everything ends exactly once, and no byte, value or permit is lost.

#include <penstock/penstock.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "coro/support/logs.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/stress.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::Canceller;
using penstock::Channel;
using penstock::Chunk;
using penstock::EventLoop;
using penstock::failure;
using penstock::Result;
using penstock::Scope;
using penstock::Task;
using penstock::testing::connect_pair;
using penstock::testing::expect;
using penstock::testing::Stress;
using penstock::testing::TcpPair;
using penstock::testing::turns;
using penstock::testing::Watchdog;
namespace net = penstock::net;
namespace sync = penstock::sync;

/// The state shared by a tree of tasks, and the number of live frames.
struct World {
    explicit World(unsigned seed) : random(seed) {}

    unsigned draw(unsigned below) { return static_cast<unsigned>(random()) % below; }

    std::mt19937 random;
    sync::Mutex mutex;
    sync::Semaphore semaphore{2};
    sync::Event event;
    Channel<int> channel{1};
    std::vector<Canceller*> cancellers; ///< of tasks that run
    int live = 0;
};

class Alive {
public:
    explicit Alive(World& world) : world_(world) { ++world_.live; }
    ~Alive() { --world_.live; }
    Alive(const Alive&) = delete;
    Alive& operator=(const Alive&) = delete;

private:
    World& world_;
};

/// A parameter that meddles with other tasks when its task's frame is freed.
class Meddler {
public:
    explicit Meddler(World& world) : world_(&world) {}
    Meddler(Meddler&& other) noexcept : world_(std::exchange(other.world_, nullptr)) {}
    Meddler& operator=(Meddler&&) = delete;
    ~Meddler() {
        if (world_ != nullptr) {
            meddle(*world_);
        }
    }

private:
    static void meddle(World& world) {
        int value = 1;
        switch (world.draw(6)) {
        case 0:
            world.event.set();
            break;
        case 1:
            world.event.reset();
            break;
        case 2:
            (void)world.channel.try_send(value);
            break;
        case 3:
            (void)world.channel.try_receive();
            break;
        case 4:
            if (!world.cancellers.empty()) {
                const auto count = static_cast<unsigned>(world.cancellers.size());
                world.cancellers[world.draw(count)]->cancel();
            }
            break;
        default:
            break;
        }
    }

    World* world_;
};

template <typename T> Result<int> number_of(const Result<T>& result) {
    return result ? Result<int>(1) : failure(result.error());
}

std::chrono::microseconds moment(World& world) {
    return std::chrono::microseconds(world.draw(60));
}

Task<Result<int>> leaf(World& world) {
    const Alive alive(world);
    switch (world.draw(10)) {
    case 0:
        co_return 1;
    case 1:
        co_return failure(std::errc::io_error);
    case 2:
        co_await turns(static_cast<int>(world.draw(4)));
        if (world.draw(8) == 0) {
            throw std::runtime_error("drawn");
        }
        co_return 2;
    case 3:
        co_return number_of(co_await penstock::sleep_for(moment(world)));
    case 4: {
        const auto guard = co_await world.mutex.lock();
        co_await turns(1);
        co_return number_of(guard);
    }
    case 5: {
        const auto permit = co_await world.semaphore.acquire();
        (void)co_await penstock::sleep_for(moment(world));
        co_return number_of(permit);
    }
    case 6:
        co_return number_of(co_await penstock::timeout(moment(world), world.event.wait()));
    case 7:
        co_return number_of(co_await penstock::timeout(moment(world), world.channel.send(1)));
    case 8:
        co_return co_await penstock::timeout(moment(world), world.channel.receive());
    default:
        co_return number_of(co_await penstock::to_thread([] { return 1; }));
    }
}

Task<Result<int>> tree(World& world, unsigned depth, Meddler meddler);

Task<Result<int>> tree(World& world, unsigned depth) {
    return tree(world, depth, Meddler(world));
}

Task<Result<>> branch(World& world, unsigned depth) {
    const Result<int> result = co_await tree(world, depth);
    co_return result ? Result<>() : failure(result.error());
}

/// Among the cancellers that a `Meddler` may call.
class Listed {
public:
    Listed(World& world, Canceller& canceller) : world_(world), canceller_(canceller) {
        world_.cancellers.push_back(&canceller);
    }
    ~Listed() { std::erase(world_.cancellers, &canceller_); }
    Listed(const Listed&) = delete;
    Listed& operator=(const Listed&) = delete;

private:
    World& world_;
    Canceller& canceller_;
};

Task<> cancel_later(World& world, Canceller& canceller) {
    co_await turns(static_cast<int>(world.draw(5)));
    canceller.cancel();
}

Task<Result<int>> tree(World& world, unsigned depth, Meddler /*meddler*/) {
    const Alive alive(world);
    if (depth == 0) {
        co_return co_await leaf(world);
    }
    --depth;
    switch (world.draw(8)) {
    case 0:
        co_return number_of(co_await penstock::all(tree(world, depth), tree(world, depth)));
    case 1:
        co_return number_of(co_await penstock::any(tree(world, depth), tree(world, depth)));
    case 2:
        co_return static_cast<int>(
            (co_await penstock::race(tree(world, depth), tree(world, depth), leaf(world))).index());
    case 3:
        co_return co_await penstock::timeout(moment(world), tree(world, depth));
    case 4:
        co_return number_of(co_await penstock::with_scope([&](Scope& scope) -> Task<Result<>> {
            const Alive inside(world);
            const unsigned children = world.draw(4);
            for (unsigned i = 0; i < children; ++i) {
                scope.spawn(branch(world, depth));
            }
            co_await turns(static_cast<int>(world.draw(4)));
            if (world.draw(2) == 0) {
                scope.cancel();
                scope.spawn(branch(world, depth));
            }
            co_return Result<>();
        }));
    case 5:
        co_return co_await penstock::shield(tree(world, depth));
    case 6: {
        Canceller canceller;
        const Listed listed(world, canceller);
        const auto both = co_await penstock::all_settled(
            penstock::cancellable(canceller, tree(world, depth)), cancel_later(world, canceller));
        co_return std::get<0>(both);
    }
    default:
        co_return co_await tree(world, depth);
    }
}

TEST(Stress, TreesOfTasksEndCompletely) {
    const Watchdog watchdog(Stress::patience());
    const Stress stress(400);
    for (unsigned seed = stress.first; seed < stress.end; ++seed) {
        World world(seed);
        EventLoop loop(EventLoop::Options{.shuffle_seed = seed});
        const auto program = [&]() -> Task<> {
            try {
                (void)co_await tree(world, 6);
            } catch (const std::runtime_error& error) {
                EXPECT_EQ(std::string(error.what()), "drawn");
            }
        };
        loop.run(program());
        ASSERT_EQ(world.live, 0) << "seed " << seed;
        ASSERT_FALSE(world.mutex.locked()) << "seed " << seed;
        ASSERT_EQ(world.semaphore.available(), 2U) << "seed " << seed;
        ASSERT_TRUE(loop.timers().empty()) << "seed " << seed;
        ASSERT_TRUE(loop.tasks().empty()) << "seed " << seed;
    }
}

/// A stage of a pipeline. It ends after some values, with an error or an exception, or when its
/// neighbours have ended.
Task<Result<>> stage(std::mt19937& random, int& live, penstock::Receiver<int> in,
                     penstock::Sender<int> out) {
    ++live;
    const std::shared_ptr<int> ended(&live, [](int* count) { --*count; });
    for (unsigned left = static_cast<unsigned>(random()) % 60;; --left) {
        if (left == 0) {
            switch (random() % 4) {
            case 0:
                co_return failure(std::errc::io_error);
            case 1:
                throw std::runtime_error("drawn");
            default:
                co_return Result<>();
            }
        }
        const Result<int> value = co_await in.receive();
        if (!value) {
            co_return failure(value.error());
        }
        if (const Result<> sent = co_await out.send(*value); !sent) {
            co_return sent;
        }
    }
}

// Nobody closes a channel: the ends that the tasks own as parameters do, in any combinator. No
// time-out is needed.
TEST(Stress, PipelinesEndWhicheverStageEnds) {
    const Watchdog watchdog(Stress::patience());
    const Stress stress(300);
    for (unsigned seed = stress.first; seed < stress.end; ++seed) {
        std::mt19937 random(seed);
        int live = 0;
        const auto source = [&](penstock::Sender<int> out) -> Task<Result<>> {
            while (co_await out.send(1)) {
            }
            co_return Result<>();
        };
        const auto sink = [&](penstock::Receiver<int> in) -> Task<Result<>> {
            while (co_await in.receive()) {
            }
            co_return Result<>();
        };
        const auto program = [&]() -> Task<> {
            std::vector<Task<Result<>>> tasks;
            auto [first, next] = penstock::make_channel<int>(1 + random() % 3);
            tasks.push_back(source(std::move(first)));
            for (unsigned stages = 1 + static_cast<unsigned>(random()) % 4; stages > 0; --stages) {
                auto [out, in] = penstock::make_channel<int>(1 + random() % 3);
                tasks.push_back(stage(random, live, std::move(next), std::move(out)));
                next = std::move(in);
            }
            tasks.push_back(sink(std::move(next)));
            std::ranges::shuffle(tasks, random);
            try {
                switch (random() % 3) {
                case 0:
                    (void)co_await penstock::all(std::move(tasks));
                    break;
                case 1:
                    (void)co_await penstock::all_settled(std::move(tasks));
                    break;
                default:
                    (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
                        for (Task<Result<>>& task : tasks) {
                            scope.spawn(std::move(task));
                        }
                        co_return;
                    });
                }
            } catch (const std::runtime_error& error) {
                EXPECT_EQ(std::string(error.what()), "drawn");
            }
        };
        EventLoop loop(EventLoop::Options{.shuffle_seed = seed});
        loop.run(program());
        ASSERT_EQ(live, 0) << "seed " << seed;
        ASSERT_TRUE(loop.tasks().empty()) << "seed " << seed;
    }
}

std::string numbered_bytes(std::size_t size) {
    std::string text(size, ' ');
    for (std::size_t i = 0; i < size; ++i) {
        text[i] = static_cast<char>('!' + (i * 31 + i / 90) % 90);
    }
    return text;
}

TEST(Stress, CancelledReadsLoseNoBytes) {
    const Watchdog watchdog(110);
    const std::string text = numbered_bytes(300'000);
    for (unsigned seed = 0; seed < 6; ++seed) {
        std::mt19937 random(seed);
        const auto send = [&](net::TcpStream& stream) -> Task<Result<>> {
            for (std::size_t sent = 0; sent < text.size();) {
                const std::size_t size =
                    std::min<std::size_t>(1 + random() % 3000, text.size() - sent);
                expect(co_await stream.write_all(std::string_view(text).substr(sent, size)));
                sent += size;
                co_await turns(static_cast<int>(random() % 3));
            }
            co_return stream.shutdown();
        };
        const auto receive = [&](net::TcpStream& stream) -> Task<Result<>> {
            std::string received;
            std::array<char, 700> buffer{};
            for (;;) {
                const auto patience = std::chrono::microseconds(random() % 30);
                Result<std::size_t> count = 0;
                if (random() % 2 == 0) {
                    count = co_await penstock::timeout(patience, stream.read(buffer));
                    received.append(buffer.data(), count.value_or(0));
                } else {
                    const auto chunk = co_await penstock::timeout(patience, stream.receive());
                    count = chunk ? Result<std::size_t>(chunk->size()) : failure(chunk.error());
                    if (chunk) {
                        received.append(reinterpret_cast<const char*>(chunk->data()),
                                        chunk->size());
                    }
                }
                if (count && *count == 0) {
                    EXPECT_EQ(received, text) << "seed " << seed;
                    co_return Result<>();
                }
                EXPECT_TRUE(count || count.error() == std::errc::timed_out);
            }
        };
        const auto program = [&]() -> Task<> {
            TcpPair pair = co_await connect_pair();
            expect(co_await penstock::all(send(pair.near), receive(pair.far)));
        };
        EventLoop loop(EventLoop::Options{.shuffle_seed = seed});
        loop.run(program());
    }
}

// Numbers of closed descriptors are reused at once. A waiter on the old descriptor must not get
// events of the new one.
TEST(Stress, StreamsClosedUnderTheirReadersGetNoEventsOfReusedDescriptors) {
    const Watchdog watchdog(110);
    const auto read_own = [](net::TcpStream& stream, char own) -> Task<> {
        for (;;) {
            const Result<Chunk> chunk = co_await stream.receive();
            if (!chunk || chunk->empty()) {
                EXPECT_TRUE(chunk || chunk.error() == std::errc::operation_canceled ||
                            chunk.error() == std::errc::bad_file_descriptor ||
                            chunk.error() == std::errc::connection_reset)
                    << chunk.error().message();
                co_return;
            }
            for (const std::byte byte : *chunk) {
                EXPECT_EQ(static_cast<char>(byte), own);
            }
        }
    };
    const auto live = [&](std::mt19937& random, char own) -> Task<> {
        for (int round = 0; round < 40; ++round) {
            TcpPair pair = co_await connect_pair();
            (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
                scope.spawn(read_own(pair.near, own));
                scope.spawn(read_own(pair.far, own));
                const std::string text(1 + random() % 2000, own);
                expect(co_await pair.far.write_all(text));
                expect(co_await pair.near.write_all(text));
                co_await turns(static_cast<int>(random() % 4));
                switch (random() % 4) {
                case 0:
                    pair.near.close();
                    co_await turns(static_cast<int>(random() % 2));
                    pair.far.close();
                    break;
                case 1:
                    pair.near.reset();
                    pair.far = net::TcpStream();
                    break;
                case 2:
                    expect(pair.near.shutdown());
                    expect(pair.far.shutdown());
                    break;
                default:
                    scope.cancel();
                }
            });
        }
    };
    for (unsigned seed = 0; seed < 4; ++seed) {
        std::mt19937 random(seed);
        const auto program = [&]() -> Task<> {
            (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
                for (char own = 'a'; own < 'i'; ++own) {
                    scope.spawn(live(random, own));
                }
                co_return;
            });
        };
        EventLoop loop(EventLoop::Options{.shuffle_seed = seed});
        loop.run(program());
    }
}

TEST(Stress, TimersThatFireWhenTheyAreCancelledEndOnce) {
    const Watchdog watchdog(110);
    for (unsigned seed = 0; seed < 40; ++seed) {
        int ended = 0;
        std::mt19937 random(seed);
        const auto sleeper = [&](std::chrono::steady_clock::time_point moment) -> Task<> {
            const Result<> slept =
                co_await penstock::timeout_at(moment, penstock::sleep_until(moment));
            EXPECT_TRUE(slept || slept.error() == std::errc::timed_out ||
                        slept.error() == std::errc::operation_canceled);
            ++ended;
        };
        const auto program = [&]() -> Task<> {
            (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
                const auto start = std::chrono::steady_clock::now();
                for (int i = 0; i < 100; ++i) {
                    scope.spawn(sleeper(start + std::chrono::microseconds(random() % 5 * 100)));
                }
                (void)co_await penstock::sleep_until(start + 200us);
                if (seed % 2 == 0) {
                    scope.cancel();
                }
            });
            EXPECT_EQ(ended, 100);
        };
        EventLoop loop(EventLoop::Options{.shuffle_seed = seed});
        loop.run(program());
        ASSERT_TRUE(loop.timers().empty());
    }
}

} // namespace
