#pragma once

// The replacement of a file in one step, for `write_file` and `copy_file`.

#include <functional>
#include <string>

#include <sys/types.h>

#include <penstock/fs/file.hpp>
#include <penstock/result.hpp>
#include <penstock/task/task.hpp>

namespace penstock::fs::detail {

/// The permission bits that a replacement keeps. The new file belongs to the user of this process,
/// so set-user-ID, set-group-ID and sticky are dropped: with them, a privileged process would give
/// the owner of the old file its own rights. A write to a file clears the first two as well.
constexpr mode_t kept_permissions = 0777;

struct Replacement {
    mode_t permissions = 0666;     ///< of a file that replaces none, before the umask
    bool keep_permissions = false; ///< a file that is replaced gives its permissions to the new one
    bool sync = true;              ///< content and name are durable when it returns
};

/// Writes the content of the new file. What it refers to lives until it has ended.
using Fill = std::function<Task<Result<>>(File&)>;

/// Lets `fill` write a temporary file beside `path`, and gives it that name. A symbolic link stays:
/// its target is replaced. If it fails or is cancelled, the old file is unchanged and no temporary
/// file is left. Only a killed process leaves one: `.NAME.0123456789ABCDEF.tmp`. One failure comes
/// after the replacement: that of the folder's sync, as EIO. A cancellation does not come then.
///
/// A file that replaces another one, or whose permissions `fill` sets, is readable by its owner
/// only until then.
///
/// Errors: `is_a_directory`, `invalid_argument` for a pipe, a socket or a device, which a file
/// must not replace, and those of the steps.
[[nodiscard]] Task<Result<>> replace_file(std::string path, Replacement how, Fill fill);

} // namespace penstock::fs::detail
