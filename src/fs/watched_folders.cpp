#include "watched_folders.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <dirent.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::fs {

namespace {

constexpr std::uint32_t watched_events = IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO |
                                         IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF |
                                         IN_ONLYDIR;
constexpr std::size_t buffer_size = 64U << 10U;

/// A folder that was removed or replaced before it could be watched: its own events tell.
bool is_gone(const std::error_code& error) noexcept {
    return error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory ||
           error == std::errc::too_many_symbolic_link_levels;
}

bool may_be_passed_over(const std::error_code& error) noexcept {
    return is_gone(error) || error == std::errc::permission_denied;
}

std::optional<ChangeKind> change_of(std::uint32_t mask) noexcept {
    switch (mask & ~std::uint32_t{IN_ISDIR}) {
    case IN_CREATE:
    case IN_MOVED_TO:
        return ChangeKind::added;
    case IN_DELETE:
    case IN_MOVED_FROM:
        return ChangeKind::deleted;
    case IN_MODIFY:
    case IN_ATTRIB:
        return ChangeKind::modified;
    default:
        return std::nullopt;
    }
}

/// The folder of a bare name is the empty path.
std::string joined(const std::string& folder, std::string_view name) {
    std::string path = folder;
    if (!path.empty() && path.back() != '/') {
        path += '/';
    }
    return path += name;
}

bool is_below(std::string_view path, std::string_view folder) noexcept {
    if (!path.starts_with(folder)) {
        return false;
    }
    return path.size() == folder.size() || folder.ends_with('/') || path[folder.size()] == '/';
}

struct Entry {
    std::string path;
    bool is_folder = false;
};

Result<std::vector<Entry>> entries_of(const std::string& folder) {
    const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), &::closedir);
    if (!open) {
        return last_failure();
    }
    std::vector<Entry> entries;
    for (;;) {
        errno = 0;
        const dirent* const entry = ::readdir(open.get()); // NOLINT(concurrency-mt-unsafe): own DIR
        if (entry == nullptr) {
            if (errno != 0) {
                return last_failure();
            }
            return entries;
        }
        const std::string_view name(&entry->d_name[0]);
        if (name == "." || name == "..") {
            continue;
        }
        bool is_folder = entry->d_type == DT_DIR;
        if (entry->d_type == DT_UNKNOWN) {
            struct stat status{};
            is_folder = ::fstatat(::dirfd(open.get()), &entry->d_name[0], &status,
                                  AT_SYMLINK_NOFOLLOW) == 0 &&
                        S_ISDIR(status.st_mode);
        }
        entries.push_back({.path = joined(folder, name), .is_folder = is_folder});
    }
}

} // namespace

std::vector<Change> CollectedChanges::take() {
    std::vector<Change> taken;
    taken.reserve(found_.size());
    while (!found_.empty()) {
        taken.push_back(std::move(found_.extract(found_.begin()).value()));
    }
    return taken;
}

Result<int> WatchedFolders::add(const std::string& path, std::uint32_t mask) {
    const int watch = ::inotify_add_watch(inotify_.get(), path.empty() ? "." : path.c_str(), mask);
    if (watch < 0) {
        return last_failure();
    }
    return watch;
}

Result<> WatchedFolders::begin(std::span<const std::string> paths) {
    inotify_.reset(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (!inotify_) {
        return last_failure();
    }
    for (const std::string& path : paths) {
        struct stat status{};
        if (::stat(path.c_str(), &status) != 0) {
            return last_failure();
        }
        const bool is_folder = S_ISDIR(status.st_mode);
        roots_[path] = is_folder;
        if (const Result<> watched = watch_root(path, is_folder); !watched) {
            return watched;
        }
    }
    return {};
}

Result<> WatchedFolders::watch_root(const std::string& path, bool is_folder) {
    std::string folder = path;
    if (!is_folder) {
        const std::size_t slash = path.rfind('/');
        folder = slash == std::string::npos ? "" : path.substr(0, slash == 0 ? 1 : slash);
    }
    const Result<int> watch = add(folder, watched_events);
    if (!watch) {
        return failure(watch.error());
    }
    if (is_folder) {
        paths_[*watch] = folder;
        return watch_below(folder, nullptr);
    }
    paths_.try_emplace(*watch, folder);
    return {};
}

// A folder is watched before it is read. So what is made in it meanwhile is either read, or
// reported by an event, or both; `scanned_` knows that.
Result<> WatchedFolders::watch_below(const std::string& folder, CollectedChanges* changes) {
    std::vector<std::string> stack{folder};
    while (!stack.empty()) {
        const std::string above = std::move(stack.back());
        stack.pop_back();
        Result<std::vector<Entry>> found = entries_of(above);
        if (!found) {
            if (may_be_passed_over(found.error())) {
                continue;
            }
            return failure(found.error());
        }
        for (Entry& entry : *found) {
            if (changes != nullptr) {
                changes->add(ChangeKind::added, entry.path);
                scanned_.insert(entry.path);
            }
            if (!entry.is_folder || !recursive_) {
                continue;
            }
            const Result<bool> watched = watch_folder(entry.path);
            if (!watched) {
                return failure(watched.error());
            }
            if (*watched) {
                stack.push_back(std::move(entry.path));
            }
        }
    }
    return {};
}

Result<bool> WatchedFolders::watch_folder(const std::string& path) {
    const Result<int> watch = add(path, watched_events | IN_DONT_FOLLOW);
    if (!watch) {
        if (may_be_passed_over(watch.error())) {
            return false;
        }
        return failure(watch.error());
    }
    paths_[*watch] = path;
    moved_.erase(*watch);
    return true;
}

Result<std::vector<WatchEvent>> WatchedFolders::events() const {
    std::vector<WatchEvent> events;
    alignas(inotify_event) std::array<char, buffer_size> buffer; // NOLINT(*-member-init): filled
    for (;;) {
        const ssize_t size = ::read(inotify_.get(), buffer.data(), buffer.size());
        if (size < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno == EAGAIN) {
                return events;
            }
            return last_failure();
        }
        const std::string_view data(buffer.data(), static_cast<std::size_t>(size));
        for (std::size_t begin = 0; begin < data.size();) {
            inotify_event head{};
            std::memcpy(&head, data.data() + begin, sizeof head);
            begin += sizeof head;
            const std::string_view name = data.substr(begin, head.len);
            events.push_back({.watch = head.wd,
                              .mask = head.mask,
                              .name = std::string(name.substr(0, name.find('\0')))});
            begin += head.len;
        }
        if (data.size() < buffer_size / 2) {
            return events;
        }
    }
}

bool WatchedFolders::needs_lookups(std::span<const WatchEvent> events) noexcept {
    for (const WatchEvent& event : events) {
        const bool is_new_folder =
            (event.mask & IN_ISDIR) != 0 && (event.mask & (IN_CREATE | IN_MOVED_TO)) != 0;
        if (is_new_folder || (event.mask & IN_Q_OVERFLOW) != 0) {
            return true;
        }
    }
    return false;
}

Result<> WatchedFolders::take(std::vector<WatchEvent> events, CollectedChanges& changes) {
    const Paths scanned_before = scanned_;
    while (!events.empty()) {
        for (const WatchEvent& event : events) {
            if (const Result<> taken = take_one(event, changes); !taken) {
                return taken;
            }
        }
        events.clear();
        if (!moved_.empty()) { // the second event of a move follows the first one at once
            Result<std::vector<WatchEvent>> further = this->events();
            if (!further) {
                return failure(further.error());
            }
            events = std::move(*further);
        }
    }
    for (const int watch : moved_) {
        paths_.erase(watch);
        ::inotify_rm_watch(inotify_.get(), watch);
    }
    moved_.clear();
    for (const std::string& each : scanned_before) { // the events of that time have been read
        scanned_.erase(each);
    }
    return {};
}

Result<> WatchedFolders::take_one(const WatchEvent& event, CollectedChanges& changes) {
    if ((event.mask & IN_Q_OVERFLOW) != 0) {
        return begin_again(changes);
    }
    const auto found = paths_.find(event.watch);
    if (found == paths_.end()) {
        return {};
    }
    if ((event.mask & IN_IGNORED) != 0) {
        paths_.erase(found);
        return {};
    }
    const std::string folder = found->second; // a copy: what follows may change the table
    if (event.name.empty()) {
        take_own(event.mask, folder, changes);
        return {};
    }
    const std::string path = joined(folder, event.name);
    const bool is_folder = (event.mask & IN_ISDIR) != 0;
    if ((event.mask & IN_MOVED_FROM) != 0 && is_folder) {
        note_moved(path);
    }
    const std::optional<ChangeKind> kind = change_of(event.mask);
    if (!kind) {
        return {};
    }
    // A creation that the scan has seen. A move to the same name may replace what it has seen.
    if ((event.mask & IN_CREATE) != 0 && scanned_.erase(path) != 0) {
        return {};
    }
    const bool is_within = within_roots(folder);
    if (is_within || roots_.contains(path)) {
        changes.add(*kind, path);
    }
    if (*kind == ChangeKind::deleted) {
        scanned_.erase(path);
    }
    if (!recursive_ || !is_folder || *kind != ChangeKind::added || !is_within) {
        return {};
    }
    const Result<bool> watched = watch_folder(path);
    if (!watched) {
        return failure(watched.error());
    }
    return *watched ? watch_below(path, &changes) : Result<>();
}

/// Takes an event of a watched folder itself. Of those below, the folder above tells.
void WatchedFolders::take_own(std::uint32_t mask, const std::string& folder,
                              CollectedChanges& changes) {
    if (!roots_.contains(folder)) {
        return;
    }
    if ((mask & (IN_DELETE_SELF | IN_MOVE_SELF)) != 0) {
        changes.add(ChangeKind::deleted, folder);
        if ((mask & IN_MOVE_SELF) != 0) {
            note_moved(folder);
        }
    } else if ((mask & IN_ATTRIB) != 0) {
        changes.add(ChangeKind::modified, folder);
    }
}

void WatchedFolders::note_moved(const std::string& path) {
    for (const auto& [watch, each] : paths_) {
        if (is_below(each, path)) {
            moved_.insert(watch);
        }
    }
}

bool WatchedFolders::within_roots(std::string_view folder) const noexcept {
    for (const auto& [root, is_folder] : roots_) {
        if (is_folder && is_below(folder, root)) {
            return true;
        }
    }
    return false;
}

/// After lost events: watches all folders that are there now.
Result<> WatchedFolders::begin_again(CollectedChanges& changes) {
    scanned_.clear();
    for (const auto& [root, is_folder] : roots_) {
        changes.add(ChangeKind::overflow, root);
        const Result<> watched = watch_root(root, is_folder);
        if (!watched && !is_gone(watched.error())) {
            return watched;
        }
    }
    return {};
}

} // namespace penstock::fs
