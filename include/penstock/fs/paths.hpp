#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include <penstock/detail/file_system_operation.hpp>
#include <penstock/fs/file.hpp>
#include <penstock/fs/status.hpp>
#include <penstock/result.hpp>
#include <penstock/task.hpp>

/// Operations on paths, each by the loop's file engine. Errors are those of the system call that the
/// comment names; `invalid_argument` for a path with a zero byte. A cancelled one ends with
/// `operation_canceled` when it had not begun, and otherwise with what came of it.
namespace penstock::fs {

/// A name in a folder.
struct DirectoryEntry {
    std::string name{};
    FileType type =
        FileType::unknown; ///< `unknown` where the file system does not say; `status` does

    [[nodiscard]] friend bool operator==(const DirectoryEntry&, const DirectoryEntry&) = default;
};

namespace detail {

/// What takes one path or two, and yields nothing.
class PathOperation final : public FileSystemOperation<PathOperation, void> {
public:
    enum class What : unsigned char {
        rename,
        rename_new,
        remove_file,
        remove_directory,
        create_directory,
        create_link,
        create_symlink,
    };

    PathOperation(What what, std::string_view path, std::string_view other = {}, mode_t mode = 0);
    void describe(io::FileOperation& request) const noexcept;

private:
    std::string path_;
    std::string other_;
    mode_t mode_;
    What what_;
};

class ListOperation final : public FileSystemOperation<ListOperation, std::vector<DirectoryEntry>> {
public:
    explicit ListOperation(std::string_view path);
    void describe(io::FileOperation& request) const noexcept;
    [[nodiscard]] std::vector<DirectoryEntry> result(std::int64_t /*answer*/) noexcept {
        return std::move(entries_);
    }

private:
    static std::int64_t list(io::FileOperation& request);

    std::string path_;
    std::vector<DirectoryEntry> entries_;
};

} // namespace detail

/// statx(2): of what a symbolic link points to, or, with `follow` false, of the link.
[[nodiscard]] inline detail::StatusOperation status(std::string_view path, bool follow = true) {
    return {path, follow};
}

/// rename(2): replaces what is at `to`, all at once.
[[nodiscard]] inline detail::PathOperation rename(std::string_view from, std::string_view to) {
    return {detail::PathOperation::What::rename, from, to};
}

/// The same, but `file_exists` when there is something at `to` (RENAME_NOREPLACE).
[[nodiscard]] inline detail::PathOperation rename_new(std::string_view from, std::string_view to) {
    return {detail::PathOperation::What::rename_new, from, to};
}

/// unlink(2), of a file, or of a symbolic link itself.
[[nodiscard]] inline detail::PathOperation remove_file(std::string_view path) {
    return {detail::PathOperation::What::remove_file, path};
}

/// rmdir(2): an empty folder; `directory_not_empty` otherwise.
[[nodiscard]] inline detail::PathOperation remove_directory(std::string_view path) {
    return {detail::PathOperation::What::remove_directory, path};
}

/// mkdir(2); its mode is `permissions` less the umask.
[[nodiscard]] inline detail::PathOperation create_directory(std::string_view path,
                                                            mode_t permissions = 0777) {
    return {detail::PathOperation::What::create_directory, path, {}, permissions};
}

/// link(2): `to` becomes another name of the file `from`.
[[nodiscard]] inline detail::PathOperation create_link(std::string_view from, std::string_view to) {
    return {detail::PathOperation::What::create_link, from, to};
}

/// symlink(2): `path` becomes a link that holds the text `target`.
[[nodiscard]] inline detail::PathOperation create_symlink(std::string_view target,
                                                          std::string_view path) {
    return {detail::PathOperation::What::create_symlink, target, path};
}

/// The folder's names but `.` and `..`, in the order in which the file system keeps them (readdir(3)).
[[nodiscard]] inline detail::ListOperation read_directory(std::string_view path) {
    return detail::ListOperation(path);
}

/// A folder and those above it, as far as they are missing. Success when it is there already.
[[nodiscard]] Task<Result<>> create_directories(std::string path, mode_t permissions = 0777);

/// All of a file, as bytes or as text.
[[nodiscard]] Task<Result<std::vector<std::byte>>> read_file(std::string path);
[[nodiscard]] Task<Result<std::string>> read_text(std::string path);

struct WriteFileOptions {
    /// The file has either its old content or all of the new one, also after a power cut: the bytes are
    /// written to another file in its folder, forced to the device, and renamed. The permissions of a
    /// file that is replaced are kept. Of a symbolic link what it names is replaced, as it is without this. Without it the file is emptied first and written in place.
    bool atomic = false;
    mode_t permissions = 0666; ///< of a new file, less the umask
};

/// Makes a file hold these bytes. After an error or a cancellation an atomic one is as it was, and
/// nothing is left beside it.
[[nodiscard]] Task<Result<>> write_file(std::string path, Bytes content, WriteFileOptions options);
[[nodiscard]] inline Task<Result<>> write_file(std::string path, Bytes content) {
    return write_file(std::move(path), content, WriteFileOptions());
}

/// Copies a file's content and permissions over `to`, sharing its blocks (FICLONE) or letting the kernel
/// copy them (copy_file_range(2)) where the file systems can. Yields how many bytes it has. After an
/// error or a cancellation `to` may hold a part.
[[nodiscard]] Task<Result<std::uint64_t>> copy_file(std::string from, std::string to);

} // namespace penstock::fs
