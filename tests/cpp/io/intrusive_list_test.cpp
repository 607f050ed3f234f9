#include <penstock/io/intrusive_list.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <deque>
#include <new>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace {

using penstock::io::IntrusiveList;
using penstock::io::ListHook;

/// Linked by a base class.
struct Based : ListHook<Based> {
    explicit Based(int value = 0) : number(value) {}
    int number;
};

/// Linked by a member.
struct WithMember {
    explicit WithMember(int value = 0) : number(value) {}
    int number;
    ListHook<WithMember> hook;
};

/// Linked by a member of a member.
struct WithNested {
    explicit WithNested(int value = 0) : number(value) {}
    int number;
    struct {
        ListHook<WithNested> hook;
    } inner;
};

struct NestedHook {
    template <typename Element> constexpr auto& operator()(Element& element) const noexcept {
        return element.inner.hook;
    }
};

template <typename T, typename L> struct Kind {
    using Item = T;
    using List = L;
};

template <typename K> class IntrusiveListTest : public ::testing::Test {
protected:
    using Item = typename K::Item;
    using List = typename K::List;

    static std::vector<int> numbers_in(const List& list) {
        std::vector<int> numbers;
        for (const Item* item = list.front(); item != nullptr; item = List::after(*item)) {
            numbers.push_back(item->number);
        }
        return numbers;
    }

    static std::vector<int> pop_all(List& list) {
        std::vector<int> numbers;
        while (const Item* item = list.pop_front()) {
            numbers.push_back(item->number);
        }
        return numbers;
    }
};

using Kinds = ::testing::Types<Kind<Based, IntrusiveList<Based>>,
                               Kind<WithMember, IntrusiveList<WithMember, &WithMember::hook>>,
                               Kind<WithNested, IntrusiveList<WithNested, NestedHook{}>>>;
TYPED_TEST_SUITE(IntrusiveListTest, Kinds);

TYPED_TEST(IntrusiveListTest, NewListIsEmpty) {
    typename TypeParam::List list;
    EXPECT_TRUE(list.empty());
    EXPECT_EQ(list.front(), nullptr);
    EXPECT_EQ(list.pop_front(), nullptr);
}

TYPED_TEST(IntrusiveListTest, KeepsTheOrderOfInsertion) {
    using Item = typename TypeParam::Item;
    std::array items{Item(1), Item(2), Item(3)};
    typename TypeParam::List list;
    list.push_back(items[1]);
    list.push_back(items[2]);
    list.push_front(items[0]);
    EXPECT_EQ(this->numbers_in(list), (std::vector{1, 2, 3}));
    EXPECT_EQ(this->pop_all(list), (std::vector{1, 2, 3}));
    EXPECT_TRUE(list.empty());
}

TYPED_TEST(IntrusiveListTest, RemovesFromTheFrontTheMiddleAndTheBack) {
    using Item = typename TypeParam::Item;
    std::array items{Item(1), Item(2), Item(3), Item(4), Item(5)};
    typename TypeParam::List list;
    for (Item& item : items) {
        list.push_back(item);
    }
    list.remove(items[2]);
    EXPECT_EQ(this->numbers_in(list), (std::vector{1, 2, 4, 5}));
    list.remove(items[0]);
    list.remove(items[4]);
    EXPECT_EQ(this->numbers_in(list), (std::vector{2, 4}));
    list.push_back(items[2]);
    EXPECT_EQ(this->pop_all(list), (std::vector{2, 4, 3}));
}

TYPED_TEST(IntrusiveListTest, AppendMovesAllBehindTheLastElement) {
    using Item = typename TypeParam::Item;
    std::array items{Item(1), Item(2), Item(3)};
    typename TypeParam::List list;
    typename TypeParam::List other;
    other.push_back(items[0]);
    list.append(other);
    EXPECT_TRUE(other.empty());
    list.append(other);
    other.push_back(items[1]);
    other.push_back(items[2]);
    list.append(other);
    list.remove(items[1]);
    EXPECT_EQ(this->pop_all(list), (std::vector{1, 3}));
}

TYPED_TEST(IntrusiveListTest, MemoryFilledWithZerosIsAnEmptyList) {
    using List = typename TypeParam::List;
    typename TypeParam::Item item(1);
    alignas(List) std::array<std::byte, sizeof(List)> memory{};
    auto& list = *std::launder(reinterpret_cast<List*>(memory.data()));
    EXPECT_TRUE(list.empty());
    list.push_back(item);
    EXPECT_EQ(this->pop_all(list), (std::vector{1}));
}

TYPED_TEST(IntrusiveListTest, BehavesLikeADequeUnderRandomOperations) {
    using Item = typename TypeParam::Item;
    std::mt19937 random(20240611); // the same run every time
    std::vector<Item> items;
    items.reserve(64);
    for (int number = 0; number < 64; ++number) {
        items.emplace_back(number);
    }
    std::deque<int> free;
    for (const Item& item : items) {
        free.push_back(item.number);
    }
    const auto item_of = [&](int number) -> Item& {
        return items[static_cast<std::size_t>(number)];
    };
    std::array<typename TypeParam::List, 2> lists;
    std::array<std::deque<int>, 2> models;
    for (int step = 0; step < 20'000; ++step) {
        const std::size_t one = random() % 2;
        const std::size_t other = 1 - one;
        std::deque<int>& model = models[one];
        switch (random() % 8) {
        case 0:
            lists[one].append(lists[other]);
            model.insert(model.end(), models[other].begin(), models[other].end());
            models[other].clear();
            break;
        case 1:
        case 2:
            if (!model.empty()) {
                const auto place =
                    model.begin() + static_cast<std::ptrdiff_t>(random() % model.size());
                lists[one].remove(item_of(*place));
                free.push_back(*place);
                model.erase(place);
            }
            break;
        case 3:
            if (const Item* item = lists[one].pop_front()) {
                ASSERT_EQ(item->number, model.front());
                model.pop_front();
                free.push_back(item->number);
            } else {
                ASSERT_TRUE(model.empty());
            }
            break;
        case 4:
        case 5:
            if (!free.empty()) {
                lists[one].push_front(item_of(free.front()));
                model.push_front(free.front());
                free.pop_front();
            }
            break;
        default:
            if (!free.empty()) {
                lists[one].push_back(item_of(free.front()));
                model.push_back(free.front());
                free.pop_front();
            }
        }
        ASSERT_EQ(this->numbers_in(lists[one]), std::vector<int>(model.begin(), model.end()));
    }
}

} // namespace
