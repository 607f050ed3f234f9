#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include <penstock/fs/status.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/task/task.hpp>

/// Functions that change what `Status` reports of a file, and extended attributes (xattr(7)), by
/// path. They run on worker threads.
///
/// With `follow`, they apply to the target of a symbolic link. Without it, to the link itself.
///
/// Errors: those of the named system call, and `invalid_argument` for a path or a name with a zero
/// byte.
///
/// Cancellation: a call that has not started changes nothing and returns `operation_canceled`. One
/// that has started is awaited and returns its own result.
namespace penstock::fs {

/// chmod(2): sets the lower twelve bits of the mode. Follows symbolic links, which have no
/// permissions of their own.
[[nodiscard]] Task<Result<>> set_permissions(std::string path, mode_t permissions);

/// The new owner of a file. An empty member leaves the old value.
struct Owner {
    std::optional<uid_t> user{};
    std::optional<gid_t> group{};
};

/// chown(2). Clears the set-user-ID and set-group-ID bits of a program.
[[nodiscard]] Task<Result<>> set_owner(std::string path, Owner owner, bool follow = true);

/// The new times of a file. An empty member leaves the old value.
struct FileTimes {
    std::optional<Status::Time> accessed{};
    std::optional<Status::Time> modified{};
};

/// utimensat(2), in nanoseconds.
[[nodiscard]] Task<Result<>> set_times(std::string path, FileTimes times, bool follow = true);

/// getxattr(2): the value of an attribute. Errors: ENODATA if the file has none of this name.
[[nodiscard]] Task<Result<std::vector<std::byte>>> attribute(std::string path, std::string name,
                                                             bool follow = true);

/// setxattr(2): creates or replaces an attribute such as `user.origin`. `value` lives until the
/// task has ended. Errors: `operation_not_supported` where the file system has none.
[[nodiscard]] Task<Result<>> set_attribute(std::string path, std::string name, Bytes value,
                                           bool follow = true);

/// removexattr(2). Errors: as for `attribute`.
[[nodiscard]] Task<Result<>> remove_attribute(std::string path, std::string name,
                                              bool follow = true);

/// listxattr(2): the names, in the order of the file system.
[[nodiscard]] Task<Result<std::vector<std::string>>> attribute_names(std::string path,
                                                                     bool follow = true);

} // namespace penstock::fs
