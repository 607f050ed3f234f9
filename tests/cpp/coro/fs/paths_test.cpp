// Operations on paths, and whole files.

#include <penstock/fs/paths.hpp>
#include <penstock/task/all_settled.hpp>
#include <penstock/task/canceller.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/yield.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/temporary_folder.hpp"

namespace {

namespace fs = penstock::fs;
using penstock::Bytes;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::testing::TemporaryFolder;

Task<std::vector<std::string>> names_in(std::string path) {
    std::vector<std::string> names;
    for (const fs::DirectoryEntry& entry : (co_await fs::read_directory(path)).value()) {
        names.push_back(entry.name);
    }
    std::ranges::sort(names);
    co_return names;
}

TEST(WholeFiles, AnAtomicWriteReplacesTheTargetOfALink) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        EXPECT_TRUE(co_await fs::create_directory(folder.path("sub")));
        (void)folder.file("sub/file", "old");
        EXPECT_TRUE(co_await fs::create_symlink("sub/file", folder.path("first")));
        EXPECT_TRUE(co_await fs::create_symlink(folder.path("first"), folder.path("second")));
        EXPECT_TRUE(co_await fs::write_file(folder.path("second"), "new", {.atomic = true}));
        EXPECT_EQ(folder.content("sub/file"), "new");
        for (const char* link : {"first", "second"}) {
            EXPECT_TRUE((co_await fs::status(folder.path(link), false))->type ==
                        fs::FileType::symbolic_link)
                << link;
        }
        EXPECT_EQ(co_await names_in(folder.path("sub")), (std::vector<std::string>{"file"}));

        EXPECT_TRUE(co_await fs::create_symlink("fresh", folder.path("dangling")));
        EXPECT_TRUE(co_await fs::write_file(folder.path("dangling"), "made", {.atomic = true}));
        EXPECT_EQ(folder.content("fresh"), "made");

        EXPECT_TRUE(co_await fs::create_symlink("round", folder.path("round")));
        EXPECT_EQ((co_await fs::write_file(folder.path("round"), "", {.atomic = true})).error(),
                  std::errc::too_many_symbolic_link_levels);
    };
    run(body());
}

// Beyond 256 KiB a worker thread reads, in pieces of 8 MiB.
TEST(WholeFiles, AreReadCompletelyAtAnySize) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        constexpr std::size_t small = std::size_t{256} * 1024;
        constexpr std::size_t piece = std::size_t{8} << 20;
        for (const std::size_t size : {std::size_t{0}, std::size_t{5}, small - 1, small, small + 1,
                                       piece - 1, piece, piece + 1, piece * 2 + 12'345}) {
            std::string text(size, ' ');
            for (std::size_t i = 0; i < size; ++i) {
                text[i] = static_cast<char>('a' + i / 1000 % 26);
            }
            const std::string path = folder.file("file", text);
            EXPECT_TRUE((co_await fs::read_text(path)).value() == text) << size;
            const auto bytes = (co_await fs::read_file(path)).value();
            EXPECT_TRUE(std::ranges::equal(bytes, std::as_bytes(std::span(text)))) << size;
        }
        EXPECT_FALSE((co_await fs::read_text("/proc/self/status"))->empty());
    };
    run(body());
}

TEST(Paths, FilesAreRenamedLinkedAndRemoved) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string first = folder.file("first", "1");
        const std::string second = folder.file("second", "2");
        EXPECT_EQ((co_await fs::rename_new(first, second)).error(), std::errc::file_exists);
        EXPECT_TRUE(co_await fs::rename(first, second));
        EXPECT_EQ(folder.content("second"), "1");
        EXPECT_TRUE(co_await fs::create_link(second, folder.path("third")));
        EXPECT_EQ((co_await fs::status(second))->links, 2U);
        EXPECT_TRUE(co_await fs::create_symlink("second", folder.path("link")));
        EXPECT_EQ((co_await fs::status(folder.path("link")))->type, fs::FileType::regular);
        EXPECT_EQ((co_await fs::status(folder.path("link"), false))->type,
                  fs::FileType::symbolic_link);
        EXPECT_TRUE(co_await fs::remove_file(folder.path("link")));
        EXPECT_TRUE(co_await fs::remove_file(second));
        EXPECT_EQ((co_await fs::remove_file(second)).error(), std::errc::no_such_file_or_directory);
        EXPECT_EQ(co_await names_in(folder.path(".")), std::vector<std::string>{"third"});
    };
    run(body());
}

TEST(Paths, FoldersAreCreatedListedAndRemoved) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        EXPECT_TRUE(co_await fs::create_directory(folder.path("a"), 0700));
        EXPECT_EQ((co_await fs::create_directory(folder.path("a"))).error(),
                  std::errc::file_exists);
        EXPECT_TRUE(co_await fs::create_directories(folder.path("a/b//c/d")));
        EXPECT_TRUE(co_await fs::create_directories(folder.path("a/b/c")));
        (void)folder.file("a/file");
        EXPECT_EQ((co_await fs::create_directories(folder.path("a/file"))).error(),
                  std::errc::file_exists);
        EXPECT_EQ((co_await fs::create_directories(folder.path("a/file/x"))).error(),
                  std::errc::not_a_directory);
        const auto entries = (co_await fs::read_directory(folder.path("a"))).value();
        EXPECT_EQ(entries.size(), 2U);
        const fs::DirectoryEntry inner{.name = "b", .type = fs::FileType::directory};
        EXPECT_NE(std::ranges::find(entries, inner), entries.end());
        EXPECT_EQ((co_await fs::remove_directory(folder.path("a"))).error(),
                  std::errc::directory_not_empty);
        EXPECT_TRUE(co_await fs::remove_directory(folder.path("a/b/c/d")));
        EXPECT_EQ((co_await fs::read_directory(folder.path("a/file"))).error(),
                  std::errc::not_a_directory);
    };
    run(body());
}

TEST(WholeFiles, AreWrittenAndRead) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string large(300'000, 'x');
        for (const std::string& text : {std::string(), std::string("short"), large}) {
            EXPECT_TRUE(co_await fs::write_file(folder.path("file"), Bytes(text)));
            EXPECT_EQ(co_await fs::read_text(folder.path("file")), text);
            EXPECT_EQ((co_await fs::read_file(folder.path("file")))->size(), text.size());
        }
        // A file that reports no size.
        EXPECT_TRUE((co_await fs::read_text("/proc/self/status"))->starts_with("Name:"));
        EXPECT_EQ((co_await fs::read_text(folder.path("missing"))).error(),
                  std::errc::no_such_file_or_directory);
        EXPECT_EQ((co_await fs::read_text(folder.path("."))).error(), std::errc::is_a_directory);
    };
    run(body());
}

TEST(WholeFiles, AreReplacedAtomically) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string path = folder.file("file", "old");
        EXPECT_EQ(::chmod(path.c_str(), 0640), 0);
        EXPECT_TRUE(co_await fs::write_file(path, "new", {.atomic = true}));
        EXPECT_EQ(folder.content("file"), "new");
        EXPECT_EQ((co_await fs::status(path))->permissions, 0640U);
        EXPECT_TRUE(co_await fs::write_file(folder.path("other"), "x", {.atomic = true}));

        // A folder cannot be replaced by a file. It stays, and no temporary file stays.
        EXPECT_TRUE(co_await fs::create_directory(folder.path("folder")));
        EXPECT_EQ((co_await fs::write_file(folder.path("folder"), "x", {.atomic = true})).error(),
                  std::errc::is_a_directory);
        EXPECT_EQ(
            (co_await fs::write_file(folder.path("missing/file"), "x", {.atomic = true})).error(),
            std::errc::no_such_file_or_directory);
        EXPECT_EQ(co_await names_in(folder.path(".")),
                  (std::vector<std::string>{"file", "folder", "other"}));
    };
    run(body());
}

// An error would tell that the file is unchanged.
TEST(WholeFiles, ACancelledAtomicWriteThatHasReplacedTheFileIsASuccess) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string path = folder.file("file", "old");
        penstock::Canceller canceller;
        const auto cancel_when_replaced = [&]() -> Task<void> {
            while (folder.content("file") == "old") {
                (void)co_await penstock::yield();
            }
            canceller.cancel();
        };
        const auto ended = co_await penstock::all_settled(
            penstock::cancellable(canceller, fs::write_file(path, "new", {.atomic = true})),
            cancel_when_replaced());
        EXPECT_TRUE(std::get<0>(ended));
        EXPECT_EQ(folder.content("file"), "new");
        EXPECT_EQ(co_await names_in(folder.path("")), (std::vector<std::string>{"file"}));
    };
    run(body());
}

TEST(WholeFiles, AreCopied) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        std::string content;
        for (int i = 0; i < 100'000; ++i) {
            content += std::to_string(i);
        }
        const std::string from = folder.file("from", content);
        EXPECT_EQ(::chmod(from.c_str(), 0751), 0);
        const std::string to = folder.file("to", std::string(1'000'000, '-'));
        EXPECT_EQ(co_await fs::copy_file(from, to), content.size());
        EXPECT_EQ(folder.content("to"), content);
        EXPECT_EQ((co_await fs::status(to))->permissions, 0751U);
        EXPECT_EQ(co_await fs::copy_file("/proc/self/stat", to),
                  folder.content("to").size()); // reports no size, and cannot be cloned
        EXPECT_EQ((co_await fs::copy_file(from, from)).error(), std::errc::file_exists);
        EXPECT_EQ(folder.content("from"), content);
        EXPECT_EQ((co_await fs::copy_file(folder.path("."), to)).error(),
                  std::errc::is_a_directory);
        EXPECT_EQ((co_await fs::copy_file(folder.path("missing"), to)).error(),
                  std::errc::no_such_file_or_directory);
    };
    run(body());
}

} // namespace
