#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <penstock/fs/status.hpp>
#include <penstock/result.hpp>
#include <penstock/task/async_generator.hpp>
#include <penstock/task/task.hpp>

namespace penstock::fs {

/// An entry below the root of a `walk`.
struct WalkEntry {
    std::string path{}; ///< the root's path, and the names below it
    FileType type = FileType::unknown;
    std::size_t depth = 0; ///< 0 for the entries of the root

    [[nodiscard]] friend bool operator==(const WalkEntry&, const WalkEntry&) = default;
};

/// All entries below a folder, each folder before its entries, in the order of the file system:
///
///     auto entries = fs::walk("photos");
///     while (std::optional<Result<fs::WalkEntry>> entry = co_await entries.next()) { ... }
///
/// Symbolic links are listed and not followed.
///
/// Errors: for a folder that cannot be read, the walk yields the error after the folder's own
/// entry, and goes on. It skips folders that vanish meanwhile. An error of the root, such as
/// `no_such_file_or_directory`, is the only item.
///
/// Cancellation: a cancelled walk yields `operation_canceled` and ends. After 64 entries in a row
/// the walk lets other tasks run.
[[nodiscard]] AsyncGenerator<Result<WalkEntry>> walk(std::string root);

/// Removes a file, or a folder with everything in it. Symbolic links are removed and not followed,
/// even if another process swaps a folder for a link meanwhile. Returns how many entries were
/// removed, 0 if the path does not exist. Any depth of folders needs two descriptors.
///
/// Errors: `invalid_argument` for the root of the file system, and for a path that ends with `.` or
/// `..` or has a zero byte; `not_a_directory` for a path of a link or file that ends with a slash.
/// In these cases nothing was removed. After an error of a system call, a part may have been.
///
/// Runs on a worker thread. Cancellation: a call that has not started removes nothing and returns
/// `operation_canceled`. One that has started is awaited and returns its own result.
[[nodiscard]] Task<Result<std::uint64_t>> remove_all(std::string path);

} // namespace penstock::fs
