#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <sys/types.h>

#include <penstock/result.hpp>
#include <penstock/task/task.hpp>

namespace penstock::fs {

/// A new folder with a unique name. The destructor removes it with everything in it, but not in a
/// child that was forked meanwhile: the folder belongs to the parent.
///
///     auto folder = co_await unwrap(fs::TemporaryDirectory::create());
///     co_await unwrap(fs::write_file(folder.path() + "/part", bytes));
///     co_await unwrap(folder.remove());
class TemporaryDirectory {
public:
    /// Creates a folder that only this user can enter (mkdtemp(3)), in `parent`, or, if that is
    /// empty, in TMPDIR of the environment or /tmp. Its name begins with `prefix`. Errors: those of
    /// mkdtemp(3), and `invalid_argument` for a prefix with a slash.
    [[nodiscard]] static Task<Result<TemporaryDirectory>> create(std::string prefix = "penstock-",
                                                                 std::string parent = {});

    TemporaryDirectory(TemporaryDirectory&& other) noexcept
        : path_(std::exchange(other.path_, std::string())), owner_(other.owner_) {}
    TemporaryDirectory& operator=(TemporaryDirectory&& other) noexcept {
        TemporaryDirectory taken(std::move(other));
        std::swap(path_, taken.path_);
        std::swap(owner_, taken.owner_);
        return *this;
    }
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

    /// Removes the folder, unless `remove` or `keep` was called. Blocks the thread and ignores
    /// errors: await `remove` where either matters.
    ~TemporaryDirectory();

    [[nodiscard]] const std::string& path() const noexcept { return path_; }

    /// Removes the folder with everything in it. Errors and cancellation are those of `remove_all`.
    /// After an error the destructor tries again.
    [[nodiscard]] Task<Result<>> remove();

    /// Gives up the folder, so that nobody removes it, and returns its path.
    [[nodiscard]] std::string keep() noexcept { return std::exchange(path_, std::string()); }

private:
    TemporaryDirectory(std::string path, pid_t owner) noexcept
        : path_(std::move(path)), owner_(owner) {}

    std::string path_;
    pid_t owner_; ///< the process that created it
};

} // namespace penstock::fs
