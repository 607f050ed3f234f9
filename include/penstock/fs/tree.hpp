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
/// Symbolic links are listed and not followed. A folder that cannot be read is yielded as the error
/// of reading it, after its own entry, and the walk goes on. Folders that vanish meanwhile are
/// skipped. The root's own error, such as `no_such_file_or_directory`, is the only item then.
/// A cancelled walk yields `operation_canceled` next, and ends. After 64 entries in a row it lets
/// other tasks run.
[[nodiscard]] AsyncGenerator<Result<WalkEntry>> walk(std::string root);

/// Removes a file, or a folder with everything in it. Symbolic links are removed and not followed,
/// also if another process swaps a folder for a link meanwhile. Returns how many entries were
/// removed, 0 if the path does not exist. Any depth of folders needs two descriptors.
///
/// Errors: `invalid_argument` for the root of the file system, and for a path that ends with `.` or
/// `..` or has a zero byte, `not_a_directory` for a slash behind a link or file: nothing is removed
/// then. After those of the system calls a part may have been removed.
///
/// Runs on a worker thread. Cancellation: before it has started, nothing is removed
/// (`operation_canceled`). Later it is not interrupted.
[[nodiscard]] Task<Result<std::uint64_t>> remove_all(std::string path);

} // namespace penstock::fs
