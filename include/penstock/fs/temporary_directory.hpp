#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <penstock/result.hpp>
#include <penstock/task/task.hpp>

namespace penstock::fs {

/// A new folder with a unique name. The destructor removes it with everything in it.
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
        : path_(std::exchange(other.path_, std::string())) {}
    TemporaryDirectory& operator=(TemporaryDirectory&& other) noexcept {
        TemporaryDirectory taken(std::move(other));
        std::swap(path_, taken.path_);
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
    explicit TemporaryDirectory(std::string path) noexcept : path_(std::move(path)) {}

    std::string path_;
};

} // namespace penstock::fs
