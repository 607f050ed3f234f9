#pragma once

#include <cstdint>
#include <system_error>

namespace penstock::io {

/// One file operation in flight; embedded in its waiter, which keeps it and its buffer alive until
/// `on_complete`, also after a cancel: the kernel may write into the buffer until its final word.
struct FileOperation {
    /// `result` is a byte count or a descriptor, or a negated errno.
    using OnComplete = void (*)(FileOperation&, std::int32_t result);

    enum class Kind : std::uint8_t { open, close, read, write, fsync, fdatasync };

    FileOperation(Kind operation, OnComplete function) noexcept
        : on_complete(function), kind(operation) {}

    OnComplete on_complete;
    Kind kind;
    int fd = -1;
    int flags = 0;
    std::uint32_t mode = 0;
    std::uint32_t length = 0;
    std::uint64_t offset = 0;
    void* buffer = nullptr;
    const char* path = nullptr;
};

/// The seam between the loop and whatever does file I/O: io_uring, or a pool of worker threads where
/// the kernel or a container refuses the ring.
///
/// The loop calls `flush` once an iteration, right before it may block, so that all operations
/// started by one batch of callbacks leave in one submission. Completions reach the loop through a
/// descriptor of the engine's own in the loop's poller, and are delivered on the loop's thread.
class FileEngine {
public:
    virtual ~FileEngine() = default;

    /// Starts an operation; errors that are known at once are returned and `on_complete` is not
    /// called.
    [[nodiscard]] virtual std::error_code start(FileOperation& operation) = 0;

    /// Asks for an early end. `on_complete` still comes, with -ECANCELED or with the result that
    /// was faster.
    virtual void cancel(FileOperation& operation) noexcept = 0;

    /// Submits what was started since the last call.
    virtual void flush() = 0;
};

} // namespace penstock::io
