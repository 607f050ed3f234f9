#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <penstock/detail/moved_from.hpp>
#include <penstock/result.hpp>
#include <penstock/task/task.hpp>

namespace penstock::fs {

/// What has happened to a path.
enum class ChangeKind : std::uint8_t {
    added = 1, ///< the file is new, or was moved here
    modified,  ///< its content or its metadata has changed
    deleted,   ///< the file is gone, or was moved away
    overflow,  ///< changes below this watched path were lost: scan all of it again
};

/// A change that a `Watch` reports.
struct Change {
    ChangeKind kind{};
    std::string path; ///< begins with the watched path, as it was given

    friend std::strong_ordering operator<=>(const Change&, const Change&) = default;
    friend bool operator==(const Change&, const Change&) = default;
};

struct WatchOptions {
    /// Also watch the folders below, and those that are created later.
    bool recursive = true;
    /// A set of changes is returned when nothing has changed for this long. 0: at once.
    std::chrono::milliseconds step{50};
    /// The longest time for which further changes are collected after the first one.
    /// `milliseconds::max()`: no limit.
    std::chrono::milliseconds debounce{1600};
};

/// The changes of watched files and folders. `watch` makes one. Python's `files.watch` follows the
/// same rules: tests/watch_cases.txt holds both to them.
///
/// The kernel reports the changes (inotify(7)); nothing is polled. It reports changes made on this
/// machine only, not those that another machine makes on a file server. Symbolic links below a
/// folder are not followed. A file is watched through its folder, so that it may be replaced,
/// removed and created again. If a folder is new or was moved here, all of its content is reported
/// as added. A file that is reported as added is not reported as modified in the same set.
///
/// Thread safety: none. It belongs to one loop.
class Watch {
public:
    /// Waits for changes and returns each of them once, sorted. An empty vector says that all
    /// watched files and folders are gone.
    ///
    /// Changes between two calls are not missed. If the kernel's queue overflows because `next` was
    /// not called for long, the result has a `ChangeKind::overflow` for each watched path.
    ///
    /// Errors: `device_or_resource_busy` if another task waits; those of `watch` for a folder that
    /// was created meanwhile: the watch has then ended, and later calls return
    /// `bad_file_descriptor`.
    ///
    /// Cancellation: `operation_canceled`. The next call returns what was collected, so
    /// `timeout(1s, changes.next())` loses nothing.
    [[nodiscard]] Task<Result<std::vector<Change>>> next();

    Watch(Watch&&) noexcept;
    Watch& operator=(Watch&&) noexcept;
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    /// Ends the watch. No task may be waiting in `next`.
    ~Watch();

private:
    struct State;
    friend Task<Result<Watch>> watch(std::vector<std::string> paths, WatchOptions options);

    explicit Watch(std::unique_ptr<State> state) noexcept;

    penstock::detail::MovableState<State> state_;
};

/// Begins to watch files and folders. Changes from the return of this call on are reported.
///
///     Result<fs::Watch> changes = co_await fs::watch("settings");
///     while (const auto found = co_await changes->next()) {
///         for (const fs::Change& change : *found) {
///             reload(change.path);
///         }
///     }
///
/// Folders are read on a worker thread.
///
/// Errors: `no_such_file_or_directory` and others of stat(2); `no_space_on_device` at the limit
/// fs.inotify.max_user_watches, `too_many_files_open` at fs.inotify.max_user_instances;
/// `invalid_argument` without a path, for a path with a zero byte or a negative time.
[[nodiscard]] Task<Result<Watch>> watch(std::vector<std::string> paths, WatchOptions options);
[[nodiscard]] Task<Result<Watch>> watch(std::string path, WatchOptions options);
[[nodiscard]] inline Task<Result<Watch>> watch(std::string path) {
    return watch(std::move(path), WatchOptions());
}

} // namespace penstock::fs
