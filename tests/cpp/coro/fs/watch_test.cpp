// Watching for changes. tests/watch_cases.txt has what Python and C++ both report.

#include <penstock/fs/watch.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/task/yield.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/temporary_folder.hpp"

namespace {

namespace fs = penstock::fs;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::testing::TemporaryFolder;
using namespace std::chrono_literals;
using Found = std::vector<fs::Change>;

constexpr fs::WatchOptions at_once{.step = 0ms};

struct Line {
    std::string key;
    std::vector<std::string> items;
};

/// The lines of each case, and first its name.
std::vector<std::vector<Line>> read_cases() {
    std::ifstream table(PENSTOCK_WATCH_CASES);
    std::vector<std::vector<Line>> cases;
    for (std::string line; std::getline(table, line);) {
        if (line.empty() || line.starts_with('#')) {
            continue;
        }
        if (line.starts_with("case ")) {
            cases.push_back({{.key = line.substr(5), .items = {}}});
            continue;
        }
        const std::size_t colon = line.find(": ");
        Line parsed{.key = line.substr(0, colon), .items = {}};
        for (std::size_t begin = colon + 2; begin < line.size();) {
            const std::size_t end = std::min(line.find("; ", begin), line.size());
            parsed.items.push_back(line.substr(begin, end - begin));
            begin = end + 2;
        }
        cases.back().push_back(std::move(parsed));
    }
    return cases;
}

/// The paths of a step are used as they are: the test runs in the case's folder.
void make(const std::string& step) {
    std::istringstream words(step);
    std::string name;
    std::string path;
    std::string second;
    words >> name >> path >> second;
    if (name == "write") {
        std::ofstream(path, std::ios::app) << "x";
    } else if (name == "make") {
        EXPECT_EQ(::mkdir(path.c_str(), 0777), 0) << step;
    } else if (name == "remove" || name == "remove-folder") {
        EXPECT_TRUE(std::filesystem::remove(path)) << step;
    } else if (name == "move") {
        std::filesystem::rename(path, second);
    } else if (name == "permit") {
        EXPECT_EQ(::chmod(path.c_str(), 0600), 0) << step;
    } else if (name == "link") {
        std::filesystem::create_symlink(second, path);
    } else {
        ADD_FAILURE() << "unknown step " << step;
    }
}

Found changes_of(const std::vector<std::string>& items) {
    Found changes;
    for (const std::string& item : items) {
        const fs::ChangeKind kind = item.front() == '+'   ? fs::ChangeKind::added
                                    : item.front() == '~' ? fs::ChangeKind::modified
                                                          : fs::ChangeKind::deleted;
        changes.push_back({.kind = kind, .path = item.substr(2)});
    }
    std::ranges::sort(changes);
    return changes;
}

std::string text_of(const Found& changes) {
    std::string text;
    for (const fs::Change& change : changes) {
        text += std::to_string(static_cast<int>(change.kind)) + " " + change.path + "; ";
    }
    return text;
}

/// The next changes; nothing, and a failure, if none come.
Task<Found> next_of(fs::Watch& changes) {
    Result<Found> found = co_await penstock::timeout(30s, changes.next());
    EXPECT_TRUE(found) << found.error().message();
    co_return found ? std::move(*found) : Found{};
}

/// Collects until all that are wanted have come.
Task<std::set<fs::Change>> until(fs::Watch& changes, Found wanted) {
    std::set<fs::Change> found;
    std::ranges::sort(wanted);
    while (!std::ranges::includes(found, wanted)) {
        Found next = co_await next_of(changes);
        if (next.empty()) {
            break;
        }
        found.insert(next.begin(), next.end());
    }
    co_return found;
}

Task<void> run_case(const std::vector<Line>& lines) {
    const std::string& name = lines.front().key;
    Result<fs::Watch> changes = penstock::failure(std::errc::not_supported);
    for (const Line& line : lines) {
        if (line.key == "before" || line.key == "do") {
            std::ranges::for_each(line.items, make);
        } else if (line.key == "watch") {
            fs::WatchOptions options = at_once;
            std::vector<std::string> paths = line.items;
            options.recursive = std::erase(paths, "flat") == 0;
            changes = co_await fs::watch(paths, options);
            EXPECT_TRUE(changes) << name << ": " << changes.error().message();
        } else if (line.key == "found" && changes) {
            const Found found = co_await next_of(*changes);
            EXPECT_EQ(text_of(found), text_of(changes_of(line.items))) << name;
        }
    }
}

TEST(Watch, EachCaseIsReportedAsTheTableSays) {
    const std::vector<std::vector<Line>> cases = read_cases();
    EXPECT_GT(cases.size(), 10U);
    const std::filesystem::path before = std::filesystem::current_path();
    for (const std::vector<Line>& each : cases) {
        const TemporaryFolder folder;
        std::filesystem::current_path(folder.path(""));
        run(run_case(each));
        std::filesystem::current_path(before);
    }
}

TEST(Watch, FoldersMadeInARaceAreReportedWholeAndOnce) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        Result<fs::Watch> changes = co_await fs::watch(folder.path(""), at_once);
        std::vector<std::string> expected;
        for (int number = 0; number < 30; ++number) {
            const std::string top = folder.path(std::to_string(number));
            for (const char* below : {"", "/a", "/a/b", "/a/b/file"}) {
                expected.push_back(top + below);
            }
        }
        std::ranges::sort(expected);
        std::thread maker([&folder] {
            for (int number = 0; number < 30; ++number) {
                const std::string top = folder.path(std::to_string(number));
                std::filesystem::create_directories(top + "/a/b");
                std::ofstream(top + "/a/b/file").flush();
            }
        });
        std::vector<std::string> added;
        while (added.size() < expected.size()) {
            const Found found = co_await next_of(*changes);
            if (found.empty()) {
                break;
            }
            for (const fs::Change& change : found) {
                if (change.kind == fs::ChangeKind::added) {
                    added.push_back(change.path);
                }
            }
        }
        maker.join();
        std::ranges::sort(added);
        EXPECT_EQ(added, expected);
    };
    run(body());
}

TEST(Watch, LostChangesAreReported) {
    std::size_t limit = 0;
    std::ifstream("/proc/sys/fs/inotify/max_queued_events") >> limit;
    if (limit > 100'000) {
        GTEST_SKIP() << "needs " << limit << " events to lose one";
    }
    const auto body = [limit]() -> Task<void> {
        const TemporaryFolder folder;
        const std::string one = folder.file("one");
        const std::string two = folder.file("two");
        Result<fs::Watch> changes = co_await fs::watch(folder.path("."), at_once);
        for (std::size_t number = 0; number < limit / 2 + 10; ++number) { // equal ones are merged
            ::utimensat(AT_FDCWD, one.c_str(), nullptr, 0);
            ::utimensat(AT_FDCWD, two.c_str(), nullptr, 0);
        }
        std::filesystem::create_directory(folder.path("new"));
        (void)co_await until(*changes, {{fs::ChangeKind::overflow, folder.path(".")}});
        (void)folder.file("new/file");
        (void)co_await until(*changes, {{fs::ChangeKind::added, folder.path("./new/file")}});
    };
    run(body());
}

TEST(Watch, ItEndsWithNothingWhenAllIsGone) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string top = folder.path("top");
        std::filesystem::create_directory(top);
        Result<fs::Watch> changes = co_await fs::watch(top, at_once);
        std::filesystem::remove(top);
        EXPECT_EQ(text_of(co_await next_of(*changes)), "3 " + top + "; ");
        EXPECT_TRUE((co_await next_of(*changes)).empty());
        EXPECT_TRUE((co_await next_of(*changes)).empty());
    };
    run(body());
}

TEST(Watch, ACancelledWaitLosesNothing) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string top = folder.path("top");
        std::filesystem::create_directory(top);
        Result<fs::Watch> changes = co_await fs::watch(top, {.step = 1ms});
        std::filesystem::create_directory(top + "/made");
        (void)folder.file("top/made/file");
        // Cancelled at each point of its way: before it waits, in the lookups, while it collects.
        Found found;
        for (int steps = 0; steps < 20; ++steps) {
            co_await penstock::with_scope([&](penstock::Scope& scope) -> Task<void> {
                scope.spawn([](fs::Watch& watch, Found& into) -> Task<void> {
                    const Result<Found> next = co_await watch.next();
                    if (next) {
                        into.insert(into.end(), next->begin(), next->end());
                    } else {
                        EXPECT_EQ(next.error(), std::errc::operation_canceled);
                    }
                }(*changes, found));
                for (int step = 0; step < steps; ++step) {
                    (void)co_await penstock::yield();
                }
                scope.cancel();
            });
        }
        if (found.empty()) {
            found = co_await next_of(*changes);
        }
        EXPECT_EQ(text_of(found), "1 " + top + "/made; 1 " + top + "/made/file; ");
    };
    run(body());
}

TEST(Watch, ChangesAreCollectedUntilItIsQuiet) {
    const auto body = [](std::chrono::milliseconds debounce) -> Task<void> {
        const TemporaryFolder folder;
        Result<fs::Watch> changes =
            co_await fs::watch(folder.path(""), {.step = 200ms, .debounce = debounce});
        Found expected;
        co_await penstock::with_scope([&](penstock::Scope& scope) -> Task<void> {
            scope.spawn([](fs::Watch& watch, Found& wanted) -> Task<void> {
                EXPECT_EQ(text_of(co_await next_of(watch)), text_of(wanted));
            }(*changes, expected));
            for (const char* name : {"0", "1", "2", "3"}) {
                expected.push_back({fs::ChangeKind::added, folder.file(name)});
                (void)co_await penstock::yield();
            }
        });
    };
    run(body(1min));
    run(body(std::chrono::milliseconds::max())); // no limit
}

TEST(Watch, TheFirstChangeIsReportedAtOnceWithoutDebounce) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        Result<fs::Watch> changes = co_await fs::watch(
            folder.path(""), {.step = std::chrono::milliseconds::max(), .debounce = 0ms});
        const Found wanted{{fs::ChangeKind::added, folder.file("0")}};
        EXPECT_EQ(text_of(co_await next_of(*changes)), text_of(wanted));
    };
    run(body());
}

TEST(Watch, BadArgumentsAndASecondWaiterAreRefused) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        EXPECT_EQ((co_await fs::watch(std::vector<std::string>{}, {})).error(),
                  std::errc::invalid_argument);
        EXPECT_EQ((co_await fs::watch(std::string("a\0b", 3))).error(),
                  std::errc::invalid_argument);
        EXPECT_EQ((co_await fs::watch(folder.path(""), {.step = -1ms})).error(),
                  std::errc::invalid_argument);
        EXPECT_EQ((co_await fs::watch(folder.path("missing"))).error(),
                  std::errc::no_such_file_or_directory);
        Result<fs::Watch> changes = co_await fs::watch(folder.path(""), at_once);
        co_await penstock::with_scope([&](penstock::Scope& scope) -> Task<void> {
            scope.spawn(
                [](fs::Watch& watch) -> Task<void> { (void)co_await watch.next(); }(*changes));
            (void)co_await penstock::yield();
            EXPECT_EQ((co_await changes->next()).error(), std::errc::device_or_resource_busy);
            scope.cancel();
        });
    };
    run(body());
}

} // namespace
