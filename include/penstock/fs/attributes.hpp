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

/// What `Status` tells of a file, changed by its path; and extended attributes (xattr(7)). They run
/// on worker threads.
///
/// `follow` selects the target of a symbolic link instead of the link.
///
/// Errors: those of the named system call, and `invalid_argument` for a path or a name with a zero
/// byte. Cancellation: before it has started, nothing is changed (`operation_canceled`). Later it
/// is not interrupted.
namespace penstock::fs {

/// chmod(2): the lower twelve bits. Always of the target: links have no permissions.
[[nodiscard]] Task<Result<>> set_permissions(std::string path, mode_t permissions);

/// Whom a file is given to. What is empty stays.
struct Owner {
    std::optional<uid_t> user{};
    std::optional<gid_t> group{};
};

/// chown(2). Clears the set-user-ID and set-group-ID bits of a program.
[[nodiscard]] Task<Result<>> set_owner(std::string path, Owner owner, bool follow = true);

/// When a file was last used. What is empty stays.
struct FileTimes {
    std::optional<Status::Time> accessed{};
    std::optional<Status::Time> modified{};
};

/// utimensat(2), in nanoseconds.
[[nodiscard]] Task<Result<>> set_times(std::string path, FileTimes times, bool follow = true);

/// getxattr(2). Errors: ENODATA if the file has none of this name.
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
