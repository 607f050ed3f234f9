#include "fs/detail/remove_tree.hpp"

#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/owned_descriptor.hpp>

namespace penstock::fs::detail {

namespace {

/// Never through a link.
constexpr int open_folder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

/// What tells a folder from all others.
struct Identity {
    dev_t device = 0;
    ino_t inode = 0;

    [[nodiscard]] friend bool operator==(const Identity&, const Identity&) = default;
};

Result<Identity> identity_of(int folder) noexcept {
    struct stat status{};
    if (::fstat(folder, &status) != 0) {
        return last_failure();
    }
    return Identity{.device = status.st_dev, .inode = status.st_ino};
}

Result<bool> is_folder(int parent, const char* name) noexcept {
    struct stat status{};
    if (::fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        return last_failure();
    }
    return S_ISDIR(status.st_mode);
}

/// Removes a folder's content. One folder is open at a time, so that the depth is limited neither
/// by the number of descriptors nor by the length of a path.
///
/// Rejected: std::filesystem::remove_all. It keeps a descriptor open for each level, follows a link
/// with a slash behind it, and ends a path at a zero byte.
class TreeRemoval {
public:
    explicit TreeRemoval(OwnedDescriptor root) noexcept : folder_(std::move(root)) {}

    /// Returns how many entries were removed. The root stays.
    Result<std::uint64_t> run() {
        if (const Result<> listed = enter({}); !listed) {
            return failure(listed.error());
        }
        for (;;) {
            if (!levels_.back().folders.empty()) {
                std::string name = std::move(levels_.back().folders.back());
                levels_.back().folders.pop_back();
                if (const Result<> descended = descend(std::move(name)); !descended) {
                    return failure(descended.error());
                }
            } else if (levels_.size() == 1) {
                return removed_;
            } else if (const Result<> ascended = ascend(); !ascended) {
                return failure(ascended.error());
            }
        }
    }

private:
    struct Level {
        std::string name;
        Identity identity;
        std::vector<std::string> folders; ///< still to remove
    };

    /// Removes everything except the folders from the open folder, and notes those.
    Result<> enter(std::string name) {
        const Result<Identity> identity = identity_of(folder_.get());
        if (!identity) {
            return failure(identity.error());
        }
        levels_.push_back({.name = std::move(name), .identity = *identity, .folders = {}});
        OwnedDescriptor copy(::fcntl(folder_.get(), F_DUPFD_CLOEXEC, 0));
        DIR* const listing = copy ? ::fdopendir(copy.get()) : nullptr;
        if (listing == nullptr) {
            return last_failure();
        }
        (void)copy.release(); // `listing` owns it
        Result<> result;
        while (result) {
            errno = 0;
            const dirent* const entry = ::readdir(listing); // NOLINT(concurrency-mt-unsafe)
            if (entry == nullptr) {
                if (errno != 0) {
                    result = last_failure();
                }
                break;
            }
            result = remove_or_note(*entry);
        }
        ::closedir(listing);
        return result;
    }

    Result<> remove_or_note(const dirent& entry) {
        const std::string_view name(entry.d_name);
        if (name == "." || name == "..") {
            return {};
        }
        Result<bool> folder = entry.d_type == DT_DIR;
        if (entry.d_type == DT_UNKNOWN) {
            folder = is_folder(folder_.get(), entry.d_name);
            if (!folder && folder.error() == std::errc::no_such_file_or_directory) {
                return {};
            }
        }
        if (!folder) {
            return failure(folder.error());
        }
        if (*folder) {
            levels_.back().folders.emplace_back(name);
            return {};
        }
        return remove(entry.d_name, 0);
    }

    /// Somebody else may have removed it before.
    Result<> remove(const char* name, int flags) noexcept {
        if (::unlinkat(folder_.get(), name, flags) == 0) {
            ++removed_;
            return {};
        }
        return errno == ENOENT ? Result<>() : last_failure();
    }

    Result<> descend(std::string name) {
        // An empty folder need not be opened, which may be forbidden.
        if (::unlinkat(folder_.get(), name.c_str(), AT_REMOVEDIR) == 0) {
            ++removed_;
            return {};
        }
        OwnedDescriptor below(::openat(folder_.get(), name.c_str(), open_folder));
        if (below) {
            folder_ = std::move(below);
            return enter(std::move(name));
        }
        if (errno == ENOENT) {
            return {};
        }
        if (errno == ENOTDIR || errno == ELOOP) { // replaced by a file or a link meanwhile
            return remove(name.c_str(), 0);
        }
        return last_failure();
    }

    Result<> ascend() {
        const Level done = std::move(levels_.back());
        levels_.pop_back();
        OwnedDescriptor above(::openat(folder_.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (!above) {
            return last_failure();
        }
        const Result<Identity> identity = identity_of(above.get());
        if (!identity) {
            return failure(identity.error());
        }
        if (*identity != levels_.back().identity) { // moved to a place outside the tree
            return failure(std::errc::no_such_file_or_directory);
        }
        folder_ = std::move(above);
        return remove(done.name.c_str(), AT_REMOVEDIR);
    }

    OwnedDescriptor folder_;
    std::vector<Level> levels_; ///< from the root to `folder_`
    std::uint64_t removed_ = 0;
};

} // namespace

Result<std::uint64_t> remove_tree(const std::string& path) {
    // A slash at the end would follow a link.
    const std::string root = path.substr(0, path.find_last_not_of('/') + 1);
    const std::string_view last = std::string_view(root).substr(root.find_last_of('/') + 1);
    if (last == "." || last == ".." || root.empty() != path.empty()) {
        return failure(std::errc::invalid_argument);
    }
    const Result<bool> folder = is_folder(AT_FDCWD, root.c_str());
    if (!folder) {
        return folder.error() == std::errc::no_such_file_or_directory ? Result<std::uint64_t>(0)
                                                                      : failure(folder.error());
    }
    if (!*folder) {
        if (root.size() != path.size()) {
            return failure(std::errc::not_a_directory);
        }
        if (::unlink(root.c_str()) != 0) {
            return last_failure();
        }
        return 1;
    }
    OwnedDescriptor opened(::open(root.c_str(), open_folder));
    if (!opened) {
        return last_failure();
    }
    const Result<std::uint64_t> removed = TreeRemoval(std::move(opened)).run();
    if (!removed) {
        return removed;
    }
    if (::rmdir(root.c_str()) != 0) {
        return last_failure();
    }
    return *removed + 1;
}

} // namespace penstock::fs::detail
