#include <penstock/task/generator.hpp>

#include <memory>
#include <ranges>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace {

using penstock::Generator;

Generator<int> count(int from, int to) {
    for (int i = from; i < to; ++i) {
        co_yield i;
    }
}

TEST(Generator, IsARange) {
    std::vector<int> seen;
    for (const int i : count(3, 6)) {
        seen.push_back(i);
    }
    EXPECT_EQ(seen, (std::vector<int>{3, 4, 5}));
    for (const int i : count(3, 3)) {
        FAIL() << i;
    }
}

TEST(Generator, WorksWithViewsAndEndsInItsMiddle) {
    const auto held = std::make_shared<int>(0);
    const auto endless = [](std::shared_ptr<int> held) -> Generator<int> {
        for (int i = 0;; ++i) {
            *held = i;
            co_yield i;
        }
    };
    std::vector<int> seen;
    for (const int i :
         endless(held) | std::views::transform([](int i) { return i * i; }) | std::views::take(4)) {
        seen.push_back(i);
    }
    EXPECT_EQ(seen, (std::vector<int>{0, 1, 4, 9}));
    EXPECT_EQ(held.use_count(), 1); // the body is destroyed
}

TEST(Generator, YieldsMoveOnlyValuesAndCopiesOfVariables) {
    const auto boxes = []() -> Generator<std::unique_ptr<int>> {
        for (int i = 0; i < 3; ++i) {
            co_yield std::make_unique<int>(i);
        }
    };
    int sum = 0;
    for (std::unique_ptr<int>&& box : boxes()) {
        const std::unique_ptr<int> taken = std::move(box);
        sum += *taken;
    }
    EXPECT_EQ(sum, 3);

    const auto texts = []() -> Generator<std::string> {
        const std::string text = "a text that is too long for the object";
        co_yield text;
        co_yield text;
    };
    for (std::string&& text : texts()) {
        const std::string taken = std::move(text);
        EXPECT_EQ(taken, "a text that is too long for the object");
    }
}

TEST(Generator, YieldsReferences) {
    std::vector<int> values{1, 2, 3};
    const auto each = [](std::vector<int>& values) -> Generator<int&> {
        for (int& value : values) {
            co_yield value;
        }
    };
    for (int& value : each(values)) {
        value *= 2;
    }
    EXPECT_EQ(values, (std::vector<int>{2, 4, 6}));
}

TEST(Generator, RethrowsExceptions) {
    const auto throws = []() -> Generator<int> {
        co_yield 1;
        throw std::runtime_error("broken contract");
    };
    auto generator = throws();
    auto next = generator.begin();
    EXPECT_EQ(*next, 1);
    EXPECT_THROW(++next, std::runtime_error);
    EXPECT_EQ(next, generator.end());
}

} // namespace
