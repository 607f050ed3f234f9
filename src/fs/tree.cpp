#include <penstock/fs/tree.hpp>

#include <system_error>
#include <utility>
#include <vector>

#include <penstock/bridge/to_thread.hpp>
#include <penstock/detail/task/budget_operation.hpp>
#include <penstock/fs/paths.hpp>

#include "fs/detail/remove_tree.hpp"

namespace penstock::fs {

namespace {

struct Folder {
    std::string path;
    std::size_t depth;
};

std::string path_below(const std::string& folder, const std::string& name) {
    return folder.ends_with('/') ? folder + name : folder + '/' + name;
}

/// The type of an entry whose file system does not report it (readdir(3), DT_UNKNOWN).
Task<FileType> type_of(const DirectoryEntry& entry, const std::string& path) {
    if (entry.type != FileType::unknown) {
        co_return entry.type;
    }
    const Result<Status> found = co_await status(path, false);
    co_return found ? found->type : FileType::unknown;
}

} // namespace

AsyncGenerator<Result<WalkEntry>> walk(std::string root) {
    struct Level {
        Folder folder;
        std::vector<DirectoryEntry> entries;
        std::size_t next = 0;
    };
    Result<std::vector<DirectoryEntry>> listed = co_await read_directory(root);
    if (!listed) {
        co_yield failure(listed.error());
        co_return;
    }
    std::vector<Level> levels;
    levels.push_back(
        {.folder = {.path = std::move(root), .depth = 0}, .entries = *std::move(listed)});
    while (!levels.empty()) {
        Level& level = levels.back();
        if (level.next == level.entries.size()) {
            levels.pop_back();
            continue;
        }
        if (!co_await penstock::detail::BudgetOperation()) {
            co_yield failure(std::errc::operation_canceled);
            co_return;
        }
        const DirectoryEntry& entry = level.entries[level.next++];
        WalkEntry found{.path = path_below(level.folder.path, entry.name),
                        .type = FileType::unknown,
                        .depth = level.folder.depth};
        found.type = co_await type_of(entry, found.path);
        co_yield found;
        if (found.type != FileType::directory) {
            continue;
        }
        listed = co_await read_directory(found.path);
        if (listed) {
            levels.push_back({.folder = {.path = found.path, .depth = found.depth + 1},
                              .entries = *std::move(listed)});
        } else if (listed.error() != std::errc::no_such_file_or_directory) {
            co_yield failure(listed.error());
            if (listed.error() == std::errc::operation_canceled) {
                co_return;
            }
        }
    }
}

Task<Result<std::uint64_t>> remove_all(std::string path) {
    if (path.contains('\0')) {
        co_return failure(std::errc::invalid_argument);
    }
    co_return co_await to_thread([&] { return detail::remove_tree(path); });
}

} // namespace penstock::fs
