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
    added = 1, ///< it is new, or was moved here
    modified,  ///< its content or its status is another
    deleted,   ///< it is gone, or was moved away
    overflow,  ///< of a watched path: changes below it were lost. Look at all of it
};

struct Change {
    ChangeKind kind{};
    std::string path; ///< begins with the watched path, as it was given

    friend std::strong_ordering operator<=>(const Change&, const Change&) = default;
    friend bool operator==(const Change&, const Change&) = default;
};

struct WatchOptions {
    /// Also watch the folders below, and those that are made.
    bool recursive = true;
    /// A set of changes is complete when nothing has changed for so long. 0: what is there comes at
    /// once.
    std::chrono::milliseconds step{50};
    /// The longest that further changes are collected after the first one.
    std::chrono::milliseconds debounce{1600};
};

/// Reports of changes, which `watch` begins. Python's `files.watch` follows the same rules:
/// tests/watch_cases.txt holds both to them.
///
/// The kernel reports the changes (inotify(7)); nothing is polled. It reports those of this machine
/// only: not what another one does on a file server. Symbolic links below a folder are not
/// followed. A file is watched by way of its folder, so that it may be replaced, removed and made
/// again. The content of a folder that is new, or moved here, is reported as added. What is new is
/// not reported as modified too.
///
/// Thread safety: none. It belongs to one loop.
class Watch {
public:
    /// Waits for changes. Returns each change once, sorted, or nothing at all when everything that
    /// is watched is gone.
    ///
    /// Nothing is missed between two calls. If the kernel has lost changes because `next` was not
    /// called for long, there is a `ChangeKind::overflow` for each watched path.
    ///
    /// Errors: `device_or_resource_busy` if another task waits; those of `watch`, for a folder that
    /// was made: the watch has ended then, and later calls return `bad_file_descriptor`.
    ///
    /// Cancellation: `operation_canceled`. What was collected comes with the next call, so
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

/// Begins to watch files and folders. What changes after it has returned is reported.
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
