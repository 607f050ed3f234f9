#pragma once

#include <string>
#include <utility>

#include <sys/types.h>

#include <penstock/owned_descriptor.hpp>
#include <penstock/result.hpp>
#include <penstock/task/task.hpp>

namespace penstock::fs {

struct LockOptions {
    bool shared = false;       ///< with other shared locks
    bool wait = true;          ///< without it, `resource_unavailable_try_again` if it is held
    mode_t permissions = 0666; ///< of a file that is created, before the umask
};

/// A lock between processes and tasks: an open file description lock of a whole file (fcntl(2),
/// F_OFD_SETLK). It ends with this object, or with the process. Python's `files.lock` takes the
/// same one.
///
///     Result<fs::Lock> lock = co_await timeout(5s, fs::lock("state.lock"));
///
/// Lock a file beside the one that is replaced: a replaced file is another file. A child that was
/// forked while a lock is held holds it too, until it execs.
class Lock {
public:
    /// Of no file.
    Lock() = default;
    explicit Lock(OwnedDescriptor descriptor) noexcept : descriptor_(std::move(descriptor)) {}

    /// Whether it is held.
    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(descriptor_); }

    /// Ends it before the object.
    void release() noexcept { descriptor_ = OwnedDescriptor(); }

private:
    OwnedDescriptor descriptor_;
};

/// Waits for a lock of the file, which is created if it does not exist. The wait is one system call
/// in a thread of its own, not a poll.
///
/// Errors: those of open(2), and ENOLCK. Cancellation: ends the wait, and nothing is locked.
[[nodiscard]] Task<Result<Lock>> lock(std::string path, LockOptions options);
[[nodiscard]] inline Task<Result<Lock>> lock(std::string path) {
    return lock(std::move(path), LockOptions());
}

} // namespace penstock::fs
