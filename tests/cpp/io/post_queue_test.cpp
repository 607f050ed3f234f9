#include <penstock/io/post_queue.hpp>

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/io/intrusive_list.hpp>
#include <penstock/io/intrusive_queue.hpp>

#include "support/watchdog.hpp"

namespace {

using penstock::io::IntrusiveList;
using penstock::io::IntrusiveQueue;
using penstock::io::ListHook;
using penstock::io::PostQueue;
using penstock::testing::Watchdog;

struct Item {
    explicit Item(int value = 0) : number(value) {}
    int number;
    Item* next = nullptr;
};

using Posts = PostQueue<Item, &Item::next>;
using Queue = IntrusiveQueue<Item, &Item::next>;

template <typename List> std::vector<int> pop_all(List& list) {
    std::vector<int> numbers;
    while (const auto* item = list.pop_front()) {
        numbers.push_back(item->number);
    }
    return numbers;
}

TEST(PostQueue, MovesElementsInTheOrderInWhichTheyWerePushed) {
    std::vector<Item> items{Item(1), Item(2), Item(3), Item(4)};
    Posts posts;
    Queue queue;
    EXPECT_TRUE(posts.empty());
    posts.move_to(queue);
    EXPECT_TRUE(queue.empty());
    posts.push(items[0]);
    posts.push(items[1]);
    EXPECT_FALSE(posts.empty());
    posts.move_to(queue);
    EXPECT_TRUE(posts.empty());
    posts.push(items[2]);
    posts.push(items[3]);
    posts.move_to(queue);
    EXPECT_EQ(pop_all(queue), (std::vector{1, 2, 3, 4}));
}

TEST(PostQueue, PushReportsThatTheQueueWasEmpty) {
    Item first(1);
    Item second(2);
    Posts posts;
    Queue queue;
    EXPECT_TRUE(posts.push(first));
    EXPECT_FALSE(posts.push(second));
    posts.move_to(queue);
    EXPECT_EQ(pop_all(queue), (std::vector{1, 2}));
    EXPECT_TRUE(posts.push(second));
}

TEST(PostQueue, SharesItsPointerWithADoublyLinkedList) {
    struct Linked : ListHook<Linked> {
        explicit Linked(int value) : number(value) {}
        int number;
    };
    struct Next {
        Linked*& operator()(Linked& item) const noexcept { return item.next; }
    };
    std::vector<Linked> items{Linked(1), Linked(2), Linked(3)};
    PostQueue<Linked, Next{}> posts;
    IntrusiveList<Linked> list;
    for (Linked& item : items) {
        posts.push(item);
    }
    posts.move_to(list);
    list.remove(items[1]);
    EXPECT_EQ(pop_all(list), (std::vector{1, 3}));
}

// Under ThreadSanitizer this also checks that what a producer wrote before its push is visible.
TEST(PostQueue, LosesNothingAndKeepsEachThreadsOrderUnderContention) {
    const Watchdog watchdog;
    constexpr int producers = 4;
    constexpr int pushes = 20'000;
    std::vector<std::vector<Item>> items(producers);
    for (std::vector<Item>& own : items) {
        own.resize(pushes);
    }
    Posts posts;
    std::atomic<unsigned> wake_ups{0};
    std::vector<std::thread> threads;
    threads.reserve(producers);
    for (int producer = 0; producer < producers; ++producer) {
        threads.emplace_back([&, producer] {
            for (int i = 0; i < pushes; ++i) {
                Item& item = items[static_cast<std::size_t>(producer)][static_cast<std::size_t>(i)];
                item.number = producer * pushes + i;
                if (posts.push(item)) {
                    wake_ups.fetch_add(1, std::memory_order_relaxed);
                    wake_ups.notify_one();
                }
            }
        });
    }
    std::vector<int> next(producers, 0);
    int received = 0;
    int out_of_order = 0;
    unsigned seen = 0;
    while (received < producers * pushes) {
        wake_ups.wait(seen); // returns once a pusher has found the queue empty
        seen = wake_ups.load();
        Queue queue;
        posts.move_to(queue);
        while (const Item* item = queue.pop_front()) {
            const int producer = item->number / pushes;
            out_of_order +=
                item->number % pushes != next[static_cast<std::size_t>(producer)]++ ? 1 : 0;
            ++received;
        }
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(out_of_order, 0);
    EXPECT_TRUE(posts.empty());
}

// A consumer that is about to sleep and a producer cannot miss each other: either the producer sees
// the flag, or the consumer sees the element.
TEST(PostQueue, PusherAndSleeperSeeEachOther) {
    const Watchdog watchdog;
    constexpr int rounds = 2'000;
    Posts posts;
    std::atomic<bool> sleeps{false};
    std::atomic<int> round{-1};
    std::atomic<bool> pusher_saw{false};
    std::atomic<int> pushed{-1};
    Item item;
    std::thread pusher([&] {
        for (int i = 0; i < rounds; ++i) {
            round.wait(i - 1);
            posts.push(item);
            pusher_saw.store(sleeps.exchange(false), std::memory_order_relaxed);
            pushed.store(i);
            pushed.notify_one();
        }
    });
    int missed = 0;
    for (int i = 0; i < rounds; ++i) {
        round.store(i);
        round.notify_one();
        sleeps.store(true);
        const bool sleeper_saw = !posts.empty();
        pushed.wait(i - 1);
        missed += !sleeper_saw && !pusher_saw.load(std::memory_order_relaxed) ? 1 : 0;
        sleeps.store(false);
        Queue queue;
        posts.move_to(queue);
    }
    pusher.join();
    EXPECT_EQ(missed, 0);
}

} // namespace
