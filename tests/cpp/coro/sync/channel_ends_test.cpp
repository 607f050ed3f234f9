#include <penstock/sync/channel_ends.hpp>

#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/bridge/block_on.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/yield.hpp>

#include "support/watchdog.hpp"

namespace {

using penstock::block_on;
using penstock::Error;
using penstock::make_channel;
using penstock::Receiver;
using penstock::Result;
using penstock::run;
using penstock::Sender;
using penstock::Task;
using penstock::testing::Watchdog;

Task<> sends(Sender<int> sender, int from, int to) {
    for (int i = from; i < to; ++i) {
        EXPECT_TRUE(co_await sender.send(i));
    }
}

Task<int> sums(Receiver<int> receiver) {
    int sum = 0;
    while (const Result<int> value = co_await receiver.receive()) {
        sum += *value;
    }
    co_return sum;
}

TEST(ChannelEnds, TheLastSenderClosesTheChannel) {
    const Watchdog watchdog;
    const auto program = []() -> Task<int> {
        auto [sender, receiver] = make_channel<int>(2);
        Sender<int> second = sender;
        auto [sum, first_ended, second_ended] =
            co_await penstock::all(sums(std::move(receiver)), sends(std::move(sender), 0, 10),
                                   sends(std::move(second), 10, 20));
        co_return sum;
    };
    EXPECT_EQ(run(program()), 190);
}

TEST(ChannelEnds, TheLastReceiverClosesTheChannel) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        auto [sender, receiver] = make_channel<int>(1);
        {
            const Receiver<int> first = std::move(receiver);
            // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): copies are counted
            const Receiver<int> second = first;
            EXPECT_FALSE(sender.closed());
        }
        EXPECT_TRUE(sender.closed());
        EXPECT_EQ((co_await sender.send(1)).error(), Error::channel_closed);
    };
    run(program());
}

TEST(ChannelEnds, BufferedValuesOutliveTheSenders) {
    const auto program = []() -> Task<> {
        auto [sender, receiver] = make_channel<int>(4);
        {
            Sender<int> last = std::move(sender);
            int value = 1;
            EXPECT_TRUE(last.try_send(value));
            EXPECT_TRUE(co_await last.send(2));
        }
        EXPECT_EQ(co_await receiver.receive(), 1);
        EXPECT_EQ(receiver.try_receive(), 2);
        EXPECT_EQ((co_await receiver.receive()).error(), Error::channel_closed);
    };
    run(program());
}

TEST(ChannelEnds, ServePlainThreadsThroughBlockOn) {
    const Watchdog watchdog;
    auto [sender, receiver] = make_channel<int>(2);
    std::vector<std::thread> producers;
    producers.reserve(3);
    for (int i = 0; i < 3; ++i) {
        producers.emplace_back([sender, i]() mutable {
            for (int k = 0; k < 100; ++k) {
                EXPECT_TRUE(block_on(sender.send(i * 100 + k)));
            }
        });
    }
    {
        const auto last = std::move(sender);
    }
    int sum = 0;
    std::thread consumer([receiver = std::move(receiver), &sum]() mutable {
        while (const Result<int> value = block_on(receiver.receive())) {
            sum += *value;
        }
    });
    for (std::thread& producer : producers) {
        producer.join();
    }
    consumer.join();
    EXPECT_EQ(sum, 300 * 299 / 2);
}

TEST(BlockOn, RefusesAThreadThatRunsALoop) {
    const auto program = []() -> Task<> {
        EXPECT_THROW((void)block_on(penstock::yield()), std::logic_error);
        co_return;
    };
    run(program());
    EXPECT_TRUE(block_on(penstock::yield()));
}

} // namespace
