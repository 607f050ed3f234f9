#include <penstock/fs/tree.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/event_loop.hpp>
#include <penstock/fs/paths.hpp>
#include <penstock/fs/temporary_directory.hpp>
#include <penstock/task/canceller.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/unwrap.hpp>

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

TEST_F(Tree, ACancelledWalkOfOneFolderEndsWithTheError) {
    Canceller canceller;
    const auto walks = [&](const std::string& root) -> Task<> {
        auto entries = fs::walk(root);
        EXPECT_TRUE((co_await entries.next())->has_value());
        canceller.cancel();
        const std::optional<Result<fs::WalkEntry>> last = co_await entries.next();
        EXPECT_TRUE(last && !*last && last->error() == std::errc::operation_canceled);
        EXPECT_FALSE((co_await entries.next()).has_value());
    };
    const auto program = [&]() -> Task<Result<>> {
        const fs::TemporaryDirectory folder = co_await unwrap(fs::TemporaryDirectory::create());
        for (const char* name : {"/a", "/b", "/c"}) {
            write(folder.path() + name);
        }
        co_await cancellable(canceller, walks(folder.path()));
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(Tree, AWalkOfALargeFolderLeavesTheLoopToOtherTasks) {
    bool other_ran = false;
    const auto walks = [&](const std::string& root) -> Task<> {
        std::size_t seen_before = 0;
        auto entries = fs::walk(root);
        (void)co_await entries.next(); // the folder is read
        other_ran = false;
        penstock::EventLoop::current().post([&] { other_ran = true; });
        while ((co_await entries.next()).has_value()) {
            seen_before += other_ran ? 0 : 1;
        }
        EXPECT_LT(seen_before, 100U);
    };
    const auto program = [&]() -> Task<Result<>> {
        const fs::TemporaryDirectory folder = co_await unwrap(fs::TemporaryDirectory::create());
        for (int i = 0; i < 200; ++i) {
            write(folder.path() + "/" + std::to_string(i));
        }
        co_await walks(folder.path());
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(Tree, APathWithAZeroByteIsRefused) {
    const auto program = []() -> Task<Result<>> {
        const fs::TemporaryDirectory folder = co_await unwrap(fs::TemporaryDirectory::create());
        plant(folder.path());
        const std::string kept = folder.path() + "/deep";
        const std::string link = folder.path() + "/link";
        const auto with_zero = [](std::string path) { return std::move(path) + '\0' + "more"; };
        EXPECT_EQ((co_await fs::remove_all(with_zero(kept))).error(), std::errc::invalid_argument);
        EXPECT_EQ(co_await fs::exists(kept), true);
        EXPECT_EQ((co_await fs::canonical(with_zero(kept))).error(), std::errc::invalid_argument);
        EXPECT_EQ((co_await fs::space(with_zero(kept))).error(), std::errc::invalid_argument);
        EXPECT_EQ((co_await fs::read_symlink(with_zero(link))).error(),
                  std::errc::invalid_argument);
        auto entries = fs::walk(with_zero(kept));
        EXPECT_EQ((co_await entries.next())->error(), std::errc::invalid_argument);
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(Tree, RemoveAllRemovesATreeDeeperThanTheProcessHasDescriptors) {
    const auto program = []() -> Task<Result<>> {
        const fs::TemporaryDirectory folder = co_await unwrap(fs::TemporaryDirectory::create());
        const std::string root = folder.path() + "/tree";
        constexpr int depth = 3'000; // and longer than a path may be
        int at = ::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        const char* name = "tree";
        for (int i = 0; i < depth; ++i) {
            EXPECT_EQ(::mkdirat(at, name, 0777), 0);
            const int below = ::openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            ::close(at);
            at = below;
            name = "folder";
        }
        ::close(at);
        rlimit before{};
        EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
        rlimit few = before;
        few.rlim_cur = 200;
        EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
        const Result<std::uint64_t> removed = co_await fs::remove_all(root);
        EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
        EXPECT_EQ(removed, static_cast<std::uint64_t>(depth));
        EXPECT_EQ(co_await fs::exists(root), false);
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

TEST_F(Tree, RemoveAllDoesNotFollowALinkWithASlash) {
    const auto program = []() -> Task<Result<>> {
        const fs::TemporaryDirectory folder = co_await unwrap(fs::TemporaryDirectory::create());
        plant(folder.path());
        const auto refused = [&](std::string path) -> Task<std::error_code> {
            const Result<std::uint64_t> removed = co_await fs::remove_all(std::move(path));
            co_return removed ? std::error_code() : removed.error();
        };
        EXPECT_EQ(co_await refused(folder.path() + "/link/"), std::errc::not_a_directory);
        EXPECT_EQ(co_await refused(folder.path() + "/file//"), std::errc::not_a_directory);
        EXPECT_EQ(co_await refused(folder.path() + "/file/below"), std::errc::not_a_directory);
        EXPECT_EQ(co_await refused(folder.path() + "/deep/."), std::errc::invalid_argument);
        EXPECT_EQ(co_await refused(folder.path() + "/deep/deeper/.."), std::errc::invalid_argument);
        EXPECT_EQ(co_await refused("//"), std::errc::invalid_argument);
        EXPECT_EQ(co_await fs::exists(folder.path() + "/deep/deeper/two"), true);
        EXPECT_EQ(co_await fs::remove_all(""), 0U);
        EXPECT_EQ(co_await fs::remove_all(folder.path() + "/link"), 1U);
        EXPECT_EQ(co_await fs::remove_all(folder.path() + "/deep//"), 4U);
        EXPECT_EQ(co_await fs::remove_all(folder.path() + "/file"), 1U);
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
