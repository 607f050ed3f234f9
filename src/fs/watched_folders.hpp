#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <penstock/detail/keyed_hash.hpp>
#include <penstock/fs/watch.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/result.hpp>

namespace penstock::fs {

/// One report of inotify(7).
struct WatchEvent {
    int watch = 0;
    std::uint32_t mask = 0;
    std::string name; ///< the entry of the folder, if it concerns one
};

/// Changes that were not delivered yet.
class CollectedChanges {
public:
    void add(ChangeKind kind, std::string path) {
        if (kind != ChangeKind::modified || !found_.contains({ChangeKind::added, path})) {
            found_.insert({kind, std::move(path)});
        }
    }
    [[nodiscard]] bool empty() const noexcept { return found_.empty(); }
    [[nodiscard]] std::vector<Change> take();

private:
    std::set<Change> found_;
};

/// The watched folders, and what their events mean. Its methods do not wait for events. `begin`
/// and `take` wait for a disk if folders are read, which `needs_lookups` tells.
///
/// Owns the inotify descriptor, and with it one watch for each folder. The kernel names folders by
/// the number of their watch, so `paths_` must say what each is called now: a move is noted when it
/// leaves, and dropped unless its arrival follows. A folder is watched before it is listed, so what
/// is created in between is reported twice and never missed; `scanned_` takes the second report
/// back. After an overflow of the kernel's queue everything is watched anew.
///
/// Thread safety: one call at a time, on any thread. Cost: memory for each folder below a recursive
/// root. A new folder takes the time to list it, a moved one a look at all watched folders.
class WatchedFolders {
public:
    explicit WatchedFolders(bool recursive) noexcept : recursive_(recursive) {}

    [[nodiscard]] Result<> begin(std::span<const std::string> paths);

    /// Readable when there are events.
    [[nodiscard]] int descriptor() const noexcept { return inotify_.get(); }

    [[nodiscard]] Result<std::vector<WatchEvent>> events() const;

    /// Whether `take` will watch new folders.
    [[nodiscard]] static bool needs_lookups(std::span<const WatchEvent> events) noexcept;

    /// Adds what has changed by these events, and watches new folders.
    [[nodiscard]] Result<> take(std::vector<WatchEvent> events, CollectedChanges& changes);

    /// Whether something is left to watch.
    [[nodiscard]] bool watches_any() const noexcept { return !paths_.empty(); }

    /// Ends all watches.
    void close() noexcept {
        inotify_.reset();
        paths_.clear();
    }

private:
    [[nodiscard]] Result<int> add(const std::string& path, std::uint32_t mask);
    [[nodiscard]] Result<> watch_root(const std::string& path, bool is_folder);
    [[nodiscard]] Result<> watch_below(const std::string& folder, CollectedChanges* changes);
    [[nodiscard]] Result<bool> watch_folder(const std::string& path);
    [[nodiscard]] Result<> take_one(const WatchEvent& event, CollectedChanges& changes);
    void take_own(std::uint32_t mask, const std::string& folder, CollectedChanges& changes);
    [[nodiscard]] Result<> begin_again(CollectedChanges& changes);
    void note_moved(const std::string& path);
    [[nodiscard]] bool within_roots(std::string_view folder) const noexcept;

    /// Who may write to the folders chooses the names.
    using Paths = std::unordered_set<std::string, penstock::detail::KeyedHash>;

    OwnedDescriptor inotify_;
    bool recursive_;
    std::map<std::string, bool> roots_;          ///< the paths as given; whether it is a folder
    std::unordered_map<int, std::string> paths_; ///< of each watch
    /// What was found in a new folder, whose own event may still come.
    Paths scanned_;
    /// The watches of folders that were moved, until it is known where to.
    std::unordered_set<int> moved_;
};

} // namespace penstock::fs
