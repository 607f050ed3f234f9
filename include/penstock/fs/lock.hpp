#pragma once

#include <string>
#include <utility>

#include <sys/types.h>

#include <penstock/owned_descriptor.hpp>
#include <penstock/result.hpp>
#include <penstock/task/task.hpp>

namespace penstock::fs {

/// How a file is locked.
struct LockOptions {
    bool shared = false;       ///< a shared lock, which excludes only exclusive ones
    bool wait = true;          ///< false: `resource_unavailable_try_again` if the lock is held
    mode_t permissions = 0666; ///< of a file that is created, before the umask
};

/// A lock between processes and tasks: an open file description lock of a whole file (fcntl(2),
/// F_OFD_SETLK). It is released when this object is destroyed, or when the process ends. Python's
/// `files.lock` takes the same lock.
///
///     Result<fs::Lock> lock = co_await timeout(5s, fs::lock("state.lock"));
///
/// To guard a file that is replaced (`write_file` with `atomic`), lock another file beside it: the
/// new file does not have the old one's lock. A child that was forked while a lock is held holds
/// the lock too, until it calls execve(2).
class Lock {
public:
    /// Holds no lock.
    Lock() = default;
    explicit Lock(OwnedDescriptor descriptor) noexcept : descriptor_(std::move(descriptor)) {}

    /// Whether this object holds the lock.
    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(descriptor_); }

    /// Releases the lock before the object is destroyed.
    void release() noexcept { descriptor_ = OwnedDescriptor(); }

private:
    OwnedDescriptor descriptor_;
};

/// Waits for the lock of a file, and creates the file if it does not exist. The wait is one system
/// call on a thread of its own, not a poll.
///
/// Errors: those of open(2), ENOLCK, `resource_unavailable_try_again` without
/// `LockOptions::wait`, and `invalid_argument` for a path with a zero byte.
///
/// Cancellation: ends the wait, and nothing is locked.
[[nodiscard]] Task<Result<Lock>> lock(std::string path, LockOptions options);
[[nodiscard]] inline Task<Result<Lock>> lock(std::string path) {
    return lock(std::move(path), LockOptions());
}

} // namespace penstock::fs
