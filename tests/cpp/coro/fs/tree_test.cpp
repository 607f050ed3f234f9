#include <penstock/fs/tree.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include <penstock/canceller.hpp>
#include <penstock/fs/paths.hpp>
#include <penstock/fs/temporary_directory.hpp>
#include <penstock/run.hpp>
#include <penstock/unwrap.hpp>

#include "support/watchdog.hpp"

namespace {

namespace fs = penstock::fs;
using penstock::Canceller;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::unwrap;
using penstock::testing::Watchdog;

void write(const std::string& path) {
    std::ofstream(path) << "content";
}

/// root/{file, link -> deep, deep/{one, deeper/{two}}, empty/}
void plant(const std::string& root) {
    std::filesystem::create_directories(root + "/deep/deeper");
    std::filesystem::create_directories(root + "/empty");
    write(root + "/file");
    write(root + "/deep/one");
    write(root + "/deep/deeper/two");
    std::filesystem::create_symlink("deep", root + "/link");
}

class Tree : public ::testing::Test {
protected:
    Watchdog watchdog;
};

TEST_F(Tree, WalkListsEachFolderBeforeItsEntriesAndFollowsNoLinks) {
    const auto program = []() -> Task<Result<>> {
        fs::TemporaryDirectory folder = co_await unwrap(fs::TemporaryDirectory::create());
        plant(folder.path());
        std::vector<std::string> seen;
        std::vector<std::string> expected{
            "deep d0",  "deep/one f1", "deep/deeper d1", "deep/deeper/two f2",
            "empty d0", "file f0",     "link l0"};
        auto entries = fs::walk(folder.path());
        while (const std::optional<Result<fs::WalkEntry>> entry = co_await entries.next()) {
            const fs::WalkEntry& found = entry->value();
            const char* type = found.type == fs::FileType::directory       ? " d"
                               : found.type == fs::FileType::symbolic_link ? " l"
                                                                           : " f";
            seen.push_back(found.path.substr(folder.path().size() + 1) + type +
                           std::to_string(found.depth));
        }
        const auto place = [&](const char* text) { return std::ranges::find(seen, text); };
        EXPECT_LT(place("deep d0"), place("deep/deeper d1"));
        EXPECT_LT(place("deep/deeper d1"), place("deep/deeper/two f2"));
        std::ranges::sort(seen);
        std::ranges::sort(expected);
        EXPECT_EQ(seen, expected);
        co_return co_await folder.remove();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(Tree, WalkYieldsTheErrorOfTheRoot) {
    const auto program = []() -> Task<> {
        auto entries = fs::walk("/nonexistent");
        EXPECT_EQ((co_await entries.next())->error(), std::errc::no_such_file_or_directory);
        EXPECT_FALSE((co_await entries.next()).has_value());
    };
    run(program());
}

TEST_F(Tree, ACancelledWalkEnds) {
    Canceller canceller;
    const auto walks = [&](const std::string& root) -> Task<int> {
        int errors = 0;
        auto entries = fs::walk(root);
        EXPECT_TRUE((co_await entries.next())->has_value());
        canceller.cancel();
        while (const std::optional<Result<fs::WalkEntry>> entry = co_await entries.next()) {
            errors += entry->has_value() ? 0 : 1;
        }
        co_return errors;
    };
    const auto program = [&]() -> Task<Result<>> {
        fs::TemporaryDirectory folder = co_await unwrap(fs::TemporaryDirectory::create());
        plant(folder.path());
        EXPECT_LE(co_await cancellable(canceller, walks(folder.path())), 1);
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(Tree, RemoveAllRemovesATreeButNotTheTargetsOfLinks) {
    const auto program = []() -> Task<Result<>> {
        const fs::TemporaryDirectory outside = co_await unwrap(fs::TemporaryDirectory::create());
        const fs::TemporaryDirectory folder = co_await unwrap(fs::TemporaryDirectory::create());
        write(outside.path() + "/kept");
        const std::string root = folder.path() + "/tree";
        plant(root);
        std::filesystem::create_symlink(outside.path(), root + "/out");
        EXPECT_EQ(co_await fs::remove_all(root), 9U);
        EXPECT_EQ(co_await fs::exists(root), false);
        EXPECT_EQ(co_await fs::exists(outside.path() + "/kept"), true);
        EXPECT_EQ(co_await fs::remove_all(root), 0U);
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(Tree, QueriesOfPaths) {
    const auto program = []() -> Task<Result<>> {
        const fs::TemporaryDirectory folder = co_await unwrap(fs::TemporaryDirectory::create());
        plant(folder.path());
        EXPECT_EQ(co_await fs::read_symlink(folder.path() + "/link"), "deep");
        EXPECT_EQ((co_await fs::read_symlink(folder.path() + "/file")).error(),
                  std::errc::invalid_argument);
        const std::string real = co_await unwrap(fs::canonical(folder.path()));
        EXPECT_EQ(co_await fs::canonical(folder.path() + "/link/../file"), real + "/file");
        EXPECT_EQ((co_await fs::canonical(folder.path() + "/none")).error(),
                  std::errc::no_such_file_or_directory);
        EXPECT_EQ(co_await fs::exists(folder.path() + "/file/below"), false);
        EXPECT_EQ((co_await fs::exists(std::string("a\0b", 3))).error(),
                  std::errc::invalid_argument);
        const fs::Space space = co_await unwrap(fs::space(folder.path()));
        EXPECT_GT(space.capacity, 0U);
        EXPECT_LE(space.available, space.capacity);
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(Tree, ATemporaryDirectoryIsRemovedUnlessItIsKept) {
    std::string path;
    const auto program = [&]() -> Task<Result<>> {
        {
            const auto folder = co_await unwrap(fs::TemporaryDirectory::create("mine-"));
            path = folder.path();
            EXPECT_NE(path.find("/mine-"), std::string::npos);
            plant(path);
        }
        EXPECT_EQ(co_await fs::exists(path), false);
        fs::TemporaryDirectory parent = co_await unwrap(fs::TemporaryDirectory::create());
        {
            auto child = co_await unwrap(fs::TemporaryDirectory::create("kept-", parent.path()));
            path = child.keep();
        }
        EXPECT_EQ(co_await fs::exists(path), true);
        co_await unwrap(parent.remove());
        EXPECT_EQ(co_await fs::exists(path), false);
        co_await unwrap(parent.remove()); // nothing is left to remove
        EXPECT_EQ((co_await fs::TemporaryDirectory::create("a/b")).error(),
                  std::errc::invalid_argument);
        EXPECT_EQ((co_await fs::TemporaryDirectory::create("x", "/nonexistent")).error(),
                  std::errc::no_such_file_or_directory);
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

} // namespace
