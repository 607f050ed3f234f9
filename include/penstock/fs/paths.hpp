#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include <penstock/fs/detail/file_operations.hpp>
#include <penstock/fs/detail/path_operations.hpp>
#include <penstock/fs/directory_entry.hpp>
#include <penstock/fs/status.hpp>
#include <penstock/result.hpp>
#include <penstock/task/task.hpp>

/// Operations on paths. They run on the loop's file engine and do not block the loop.
///
/// Errors: those of the named system call, and `invalid_argument` for a path with a zero byte.
///
/// Cancellation: an operation that has not started returns `operation_canceled`. One that has
/// started is awaited and returns its own result.
namespace penstock::fs {

/// statx(2). `follow` selects the target of a symbolic link instead of the link.
[[nodiscard]] inline detail::StatusOperation status(std::string_view path, bool follow = true) {
    return {path, follow};
}

/// rename(2): replaces `to` atomically.
[[nodiscard]] inline detail::PathOperation rename(std::string_view from, std::string_view to) {
    return {detail::PathOperation::What::rename, from, to};
}

/// The same, but returns `file_exists` if `to` exists (RENAME_NOREPLACE).
[[nodiscard]] inline detail::PathOperation rename_new(std::string_view from, std::string_view to) {
    return {detail::PathOperation::What::rename_new, from, to};
}

/// unlink(2): removes a file, or a symbolic link itself.
[[nodiscard]] inline detail::PathOperation remove_file(std::string_view path) {
    return {detail::PathOperation::What::remove_file, path};
}

/// rmdir(2): removes an empty folder. Errors: `directory_not_empty`.
[[nodiscard]] inline detail::PathOperation remove_directory(std::string_view path) {
    return {detail::PathOperation::What::remove_directory, path};
}

/// mkdir(2). The mode is `permissions` less the umask.
[[nodiscard]] inline detail::PathOperation create_directory(std::string_view path,
                                                            mode_t permissions = 0777) {
    return {detail::PathOperation::What::create_directory, path, {}, permissions};
}

/// link(2): creates the hard link `to` to the file `from`.
[[nodiscard]] inline detail::PathOperation create_link(std::string_view from, std::string_view to) {
    return {detail::PathOperation::What::create_link, from, to};
}

/// symlink(2): creates the symbolic link `path` with the text `target`.
[[nodiscard]] inline detail::PathOperation create_symlink(std::string_view target,
                                                          std::string_view path) {
    return {detail::PathOperation::What::create_symlink, target, path};
}

/// The entries except `.` and `..`, in the order of the file system (readdir(3)).
[[nodiscard]] inline detail::ListOperation read_directory(std::string_view path) {
    return detail::ListOperation(path);
}

/// Creates a folder and its missing parents. An existing folder is a success.
[[nodiscard]] Task<Result<>> create_directories(std::string path, mode_t permissions = 0777);

/// Whether a file or folder exists. A symbolic link without a target does not. Errors other than
/// `no_such_file_or_directory` and `not_a_directory`, such as `permission_denied`, are returned.
[[nodiscard]] Task<Result<bool>> exists(std::string path);

/// readlink(2): the text of a symbolic link. Errors: `invalid_argument` if the path is no link.
[[nodiscard]] Task<Result<std::string>> read_symlink(std::string path);

/// realpath(3): the absolute path without symbolic links, `.` and `..`. All of it must exist.
[[nodiscard]] Task<Result<std::string>> canonical(std::string path);

/// The space of a file system, in bytes (statvfs(3)).
struct Space {
    std::uint64_t capacity = 0;
    std::uint64_t free = 0;
    std::uint64_t available = 0; ///< to a process without privileges
};

/// The space of the file system that holds `path`.
[[nodiscard]] Task<Result<Space>> space(std::string path);

/// Reads a whole file, as bytes or as text.
[[nodiscard]] Task<Result<std::vector<std::byte>>> read_file(std::string path);
[[nodiscard]] Task<Result<std::string>> read_text(std::string path);

/// Reads several whole files, at most `limit` at a time, in the order of their paths.
///
/// Errors: the first one, such as that of a missing file, cancels the other reads and is the
/// result. Throws `std::invalid_argument` for a limit of 0.
[[nodiscard]] Task<Result<std::vector<std::vector<std::byte>>>>
read_many(std::vector<std::string> paths, std::size_t limit = 64);

/// How `write_file` writes.
struct WriteFileOptions {
    /// Replaces the content atomically: after a power cut the file has either the old or the new
    /// content. The bytes go to a temporary file in the same folder, which is synced and renamed.
    /// The permissions of an existing file are kept, without the set-user-ID, set-group-ID and
    /// sticky bits. Owner, extended attributes and other hard links are not: it is a new file.
    /// Without this option the file is emptied and written in place. In both cases the target of a
    /// symbolic link is written, not the link.
    bool atomic = false;
    mode_t permissions = 0666; ///< of a new file, before the umask
};

/// Sets the content of a file. `content` must live until the task has ended.
///
/// An atomic write that fails or is cancelled leaves the file unchanged and no temporary file. One
/// failure comes after the replacement: if the folder cannot be synced (EIO), the new content is
/// there, but may not survive a power cut.
///
/// Errors: those of the system calls. An atomic write replaces regular files only: it returns
/// `invalid_argument` for a pipe, a socket or a device, and `is_a_directory` for a folder.
[[nodiscard]] Task<Result<>> write_file(std::string path, Bytes content, WriteFileOptions options);
[[nodiscard]] inline Task<Result<>> write_file(std::string path, Bytes content) {
    return write_file(std::move(path), content, WriteFileOptions());
}

/// How `copy_file` copies.
struct CopyFileOptions {
    /// Makes the copy durable before it gets its name. Without this, a power cut soon after may
    /// leave an empty or partial target. A crash of the program never does.
    bool sync = true;
};

/// Copies a regular file to `to`, and returns its size in bytes. The target appears when the copy
/// is complete, and atomically replaces a file of that name, as `write_file` with `atomic` does. It
/// gets the permissions of the source, without the set-user-ID, set-group-ID and sticky bits. A
/// failed or cancelled copy leaves an old target unchanged.
///
/// Shares blocks (FICLONE) or copies in the kernel (copy_file_range(2)) if the file systems can.
/// Holes of a sparse source stay holes.
///
/// Errors: `file_exists` if both are the same file, `is_a_directory`, and `invalid_argument` for a
/// source or target that is a pipe, a socket or a device.
[[nodiscard]] Task<Result<std::uint64_t>> copy_file(std::string from, std::string to,
                                                    CopyFileOptions options);
[[nodiscard]] inline Task<Result<std::uint64_t>> copy_file(std::string from, std::string to) {
    return copy_file(std::move(from), std::move(to), CopyFileOptions());
}

} // namespace penstock::fs
