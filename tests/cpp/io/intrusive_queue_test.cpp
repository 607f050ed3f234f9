#include <penstock/io/intrusive_queue.hpp>
#include <penstock/io/work.hpp>

#include <array>
#include <deque>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace {

using penstock::io::IntrusiveQueue;

struct Item {
    explicit Item(int value = 0) : number(value) {}

    int number;
    Item* next = nullptr;
};

using Queue = IntrusiveQueue<Item, &Item::next>;

std::vector<int> pop_all(Queue& queue) {
    std::vector<int> numbers;
    while (const Item* item = queue.pop_front()) {
        numbers.push_back(item->number);
    }
    return numbers;
}

void push_all(Queue& queue, std::span<Item> items) {
    for (Item& item : items) {
        queue.push_back(item);
    }
}

/// A queue of 1 and 2 after a queue of 3 and 4 was moved into it.
std::vector<int> joined(void (Queue::*move_into)(Queue&)) {
    std::array items{Item(1), Item(2), Item(3), Item(4)};
    Queue queue;
    Queue other;
    push_all(queue, std::span(items).first(2));
    push_all(other, std::span(items).last(2));
    (queue.*move_into)(other);
    EXPECT_TRUE(other.empty());
    return pop_all(queue);
}

TEST(IntrusiveQueue, NewQueueIsEmpty) {
    Queue queue;
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.pop_front(), nullptr);
}

TEST(IntrusiveQueue, PopsElementsInTheOrderOfInsertion) {
    std::array items{Item(1), Item(2), Item(3)};
    Queue queue;
    push_all(queue, items);
    EXPECT_FALSE(queue.empty());
    EXPECT_EQ(pop_all(queue), (std::vector{1, 2, 3}));
    EXPECT_TRUE(queue.empty());
}

TEST(IntrusiveQueue, PushFrontPutsAnElementBeforeTheFirst) {
    std::array items{Item(1), Item(2), Item(3)};
    Queue queue;
    queue.push_front(items[1]);
    queue.push_front(items[0]);
    queue.push_back(items[2]);
    EXPECT_EQ(pop_all(queue), (std::vector{1, 2, 3}));
}

TEST(IntrusiveQueue, PoppedElementMayBePushedAgain) {
    Item first(1);
    Item second(2);
    Queue queue;
    queue.push_back(first);
    queue.push_back(second);
    queue.push_back(*queue.pop_front());
    EXPECT_EQ(pop_all(queue), (std::vector{2, 1}));
    queue.push_back(first);
    EXPECT_EQ(pop_all(queue), (std::vector{1}));
}

TEST(IntrusiveQueue, PoppedElementPointsToNothing) {
    Item first(1);
    Item second(2);
    Queue queue;
    queue.push_back(first);
    queue.push_back(second);
    queue.pop_front();
    EXPECT_EQ(first.next, nullptr);
}

TEST(IntrusiveQueue, AppendMovesBehindTheLastElement) {
    EXPECT_EQ(joined(&Queue::append), (std::vector{1, 2, 3, 4}));
}

TEST(IntrusiveQueue, PrependMovesBeforeTheFirstElement) {
    EXPECT_EQ(joined(&Queue::prepend), (std::vector{3, 4, 1, 2}));
}

TEST(IntrusiveQueue, AppendAndPrependIntoAnEmptyQueueKeepItUsable) {
    Item first(1);
    Item second(2);
    for (void (Queue::* const move_into)(Queue&) : {&Queue::append, &Queue::prepend}) {
        Queue queue;
        Queue other;
        other.push_back(first);
        (queue.*move_into)(other);
        queue.push_back(second);
        EXPECT_EQ(pop_all(queue), (std::vector{1, 2}));
    }
}

TEST(IntrusiveQueue, AppendAndPrependOfAnEmptyQueueChangeNothing) {
    Item first(1);
    Item second(2);
    for (void (Queue::* const move_into)(Queue&) : {&Queue::append, &Queue::prepend}) {
        Queue queue;
        Queue other;
        queue.push_back(first);
        (queue.*move_into)(other);
        queue.push_back(second);
        EXPECT_EQ(pop_all(queue), (std::vector{1, 2}));
    }
}

TEST(IntrusiveQueue, MoveLeavesAnEmptyUsableQueue) {
    Item first(1);
    Item second(2);
    Queue queue;
    queue.push_back(first);
    Queue moved(std::move(queue));
    // A moved-from queue is empty.
    // NOLINTBEGIN(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
    EXPECT_TRUE(queue.empty());
    queue.push_back(second);
    EXPECT_EQ(pop_all(moved), (std::vector{1}));
    EXPECT_EQ(pop_all(queue), (std::vector{2}));
    // NOLINTEND(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
}

TEST(IntrusiveQueue, VisitAllSeesEveryElementOldestFirst) {
    std::array items{Item(1), Item(2), Item(3)};
    Queue queue;
    push_all(queue, items);
    std::vector<int> seen;
    const int result = queue.visit_all([&](const Item& item) {
        seen.push_back(item.number);
        return 0;
    });
    EXPECT_EQ(result, 0);
    EXPECT_EQ(seen, (std::vector{1, 2, 3}));
    EXPECT_EQ(pop_all(queue), seen) << "a visit removes nothing";
}

TEST(IntrusiveQueue, VisitAllEndsAtTheFirstResultOtherThanZero) {
    std::array items{Item(1), Item(2), Item(3)};
    Queue queue;
    push_all(queue, items);
    int visits = 0;
    const int result = queue.visit_all([&](const Item& item) {
        ++visits;
        return item.number == 2 ? 42 : 0;
    });
    EXPECT_EQ(result, 42);
    EXPECT_EQ(visits, 2);
}

TEST(IntrusiveQueue, BehavesLikeADequeUnderRandomOperations) {
    std::mt19937 random(20240611); // the same run every time
    std::vector<Item> items;
    items.reserve(64);
    for (int number = 0; number < 64; ++number) {
        items.emplace_back(number);
    }
    std::deque<Item*> free;
    for (Item& item : items) {
        free.push_back(&item);
    }
    std::array<Queue, 2> queues;
    std::array<std::deque<int>, 2> models;
    for (int step = 0; step < 20'000; ++step) {
        const std::size_t one = random() % 2;
        const std::size_t other = 1 - one;
        switch (random() % 8) {
        case 0:
            queues[one].append(queues[other]);
            models[one].insert(models[one].end(), models[other].begin(), models[other].end());
            models[other].clear();
            break;
        case 1:
            queues[one].prepend(queues[other]);
            models[one].insert(models[one].begin(), models[other].begin(), models[other].end());
            models[other].clear();
            break;
        case 2:
        case 3:
        case 4:
            if (Item* item = queues[one].pop_front()) {
                ASSERT_FALSE(models[one].empty());
                ASSERT_EQ(item->number, models[one].front());
                models[one].pop_front();
                free.push_back(item);
            } else {
                ASSERT_TRUE(models[one].empty());
            }
            break;
        default:
            if (!free.empty()) {
                queues[one].push_back(*free.front());
                models[one].push_back(free.front()->number);
                free.pop_front();
            }
        }
        ASSERT_EQ(queues[one].empty(), models[one].empty());
    }
}

TEST(WorkQueue, RunsWorkThroughItsFunction) {
    struct Counter : penstock::io::Work {
        Counter() : Work([](Work& work) { ++static_cast<Counter&>(work).runs; }) {}
        int runs = 0;
    };
    Counter first;
    Counter second;
    penstock::io::WorkQueue queue;
    queue.push_back(first);
    queue.push_back(second);
    while (penstock::io::Work* work = queue.pop_front()) {
        work->run(*work);
    }
    EXPECT_EQ(first.runs, 1);
    EXPECT_EQ(second.runs, 1);
}

} // namespace
