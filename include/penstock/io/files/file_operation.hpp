#pragma once

#include <cstddef>
#include <cstdint>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <penstock/io/intrusive_list.hpp>

namespace penstock::io {

/// One file operation. The waiter embeds it, so starting an operation allocates nothing.
///
/// The owner describes the operation with one of the `to_...` functions and passes it to
/// `FileEngine::start`. From then on it keeps the operation, its paths and its buffers alive and in
/// place until `on_complete`, even after a cancellation: the kernel may write into a buffer until
/// the operation completes. `on_complete` is called exactly once for each `start`, on the loop's
/// thread. It may start the operation again or destroy it.
///
/// Errors are negated errno values, those of the system call of the same name.
struct FileOperation {
    /// `result` is a byte count, a descriptor, 0, or a negated errno.
    using OnComplete = void (*)(FileOperation&, std::int64_t result);

    /// Returns a buffer of `capacity` bytes that starts with the `transferred` bytes of the old
    /// one, as realloc(3) does. Null: the operation ends with -ENOMEM. Called on the loop's thread.
    using Grow = void* (*)(FileOperation&, std::size_t capacity);

    /// Runs on a worker thread and returns the operation's result.
    using Call = std::int64_t (*)(FileOperation&);

    enum class Kind : std::uint8_t {
        none,
        open,
        close,
        read,
        readv,
        write,
        writev,
        fsync,
        fdatasync,
        truncate,
        allocate,
        advise,
        stat,
        rename,
        unlink,
        make_directory,
        link,
        make_symlink,
        splice,
        copy_range,
        clone,
        read_file,
        call,
    };

    /// An offset that means: at the file's own position, which the transfer moves.
    static constexpr std::int64_t current_position = -1;

    /// Whether a transfer ends after one system call or continues until everything is transferred.
    /// A read also ends at the end of the file. If a later call fails, the operation fails, and
    /// `transferred` counts the bytes before it.
    enum class Extent : std::uint8_t { once, whole };

    explicit FileOperation(OnComplete function) noexcept : on_complete(function) {}

    /// openat(2) with O_CLOEXEC added. The result is a descriptor. A cancelled operation never
    /// returns one: if the file was opened, the engine closes it.
    ///
    /// Opening a FIFO without O_NONBLOCK waits for the other end, or for a cancellation. A worker
    /// thread is then interrupted by a real-time signal for which the program has no handler.
    void to_open(const char* file, int open_flags, mode_t permissions = 0,
                 int directory = AT_FDCWD) noexcept {
        describe(Kind::open, directory, file);
        flags = open_flags | O_CLOEXEC;
        mode = permissions;
    }

    /// close(2). Cannot be cancelled: once it is started, the descriptor is closed.
    void to_close(int descriptor) noexcept { describe(Kind::close, descriptor); }

    /// preadv2(2). `rw_flags` are RWF_ bits. Files without positions (pipes, terminals) ignore
    /// `position`. If there is no data yet, the operation waits, even with O_NONBLOCK; with
    /// RWF_NOWAIT it ends with -EAGAIN.
    void to_read(int descriptor, void* into, std::size_t size, std::int64_t position,
                 Extent how = Extent::once, int rw_flags = 0) noexcept {
        describe(Kind::read, descriptor);
        transfer(into, size, position, how, rw_flags);
    }

    /// pwritev2(2). On a file opened with O_APPEND the position is ignored (pwrite(2), BUGS).
    void to_write(int descriptor, const void* from, std::size_t size, std::int64_t position,
                  Extent how = Extent::whole, int rw_flags = 0) noexcept {
        describe(Kind::write, descriptor);
        transfer(const_cast<void*>(from), size, position, how, rw_flags);
    }

    /// preadv2(2) into `count` parts (at most IOV_MAX). `Extent::whole` modifies the array.
    void to_readv(int descriptor, iovec* parts, std::size_t count, std::int64_t position,
                  Extent how = Extent::once, int rw_flags = 0) noexcept {
        describe(Kind::readv, descriptor);
        transfer(parts, count, position, how, rw_flags);
    }

    /// pwritev2(2) of `count` parts; otherwise like `to_readv`.
    void to_writev(int descriptor, iovec* parts, std::size_t count, std::int64_t position,
                   Extent how = Extent::whole, int rw_flags = 0) noexcept {
        describe(Kind::writev, descriptor);
        transfer(parts, count, position, how, rw_flags);
    }

    void to_fsync(int descriptor) noexcept { describe(Kind::fsync, descriptor); }
    void to_fdatasync(int descriptor) noexcept { describe(Kind::fdatasync, descriptor); }

    /// ftruncate(2).
    void to_truncate(int descriptor, std::int64_t size) noexcept {
        describe(Kind::truncate, descriptor);
        offset = size;
    }

    /// fallocate(2); `how` are FALLOC_FL_ bits.
    void to_allocate(int descriptor, int how, std::int64_t position, std::int64_t size) noexcept {
        describe(Kind::allocate, descriptor);
        flags = how;
        offset = position;
        length = static_cast<std::uint64_t>(size);
    }

    /// posix_fadvise(2).
    void to_advise(int descriptor, std::int64_t position, std::int64_t size, int advice) noexcept {
        describe(Kind::advise, descriptor);
        flags = advice;
        offset = position;
        length = static_cast<std::uint64_t>(size);
    }

    /// statx(2) into `result`. For an open descriptor, pass "" as `file`, the descriptor as
    /// `directory`, and AT_EMPTY_PATH in `at_flags`.
    void to_stat(const char* file, struct statx& result, int at_flags = 0,
                 unsigned mask = STATX_BASIC_STATS | STATX_BTIME,
                 int directory = AT_FDCWD) noexcept {
        describe(Kind::stat, directory, file);
        buffer = &result;
        flags = at_flags;
        mode = mask;
    }

    /// renameat2(2); `rename_flags` are RENAME_ bits.
    void to_rename(const char* from, const char* to, unsigned rename_flags = 0,
                   int from_directory = AT_FDCWD, int to_directory = AT_FDCWD) noexcept {
        describe(Kind::rename, from_directory, from);
        other_fd = to_directory;
        other_path = to;
        flags = static_cast<int>(rename_flags);
    }

    /// unlinkat(2). With AT_REMOVEDIR: rmdir(2).
    void to_unlink(const char* file, int at_flags = 0, int directory = AT_FDCWD) noexcept {
        describe(Kind::unlink, directory, file);
        flags = at_flags;
    }

    /// mkdirat(2).
    void to_make_directory(const char* file, mode_t permissions,
                           int directory = AT_FDCWD) noexcept {
        describe(Kind::make_directory, directory, file);
        mode = permissions;
    }

    /// linkat(2): makes `to` another name of `from`.
    void to_link(const char* from, const char* to, int at_flags = 0, int from_directory = AT_FDCWD,
                 int to_directory = AT_FDCWD) noexcept {
        describe(Kind::link, from_directory, from);
        other_fd = to_directory;
        other_path = to;
        flags = at_flags;
    }

    /// symlinkat(2).
    void to_make_symlink(const char* target, const char* file, int directory = AT_FDCWD) noexcept {
        describe(Kind::make_symlink, directory, target);
        other_path = file;
    }

    /// splice(2). One of the two is a pipe; its offset is `current_position`.
    void to_splice(int from, std::int64_t from_offset, int to, std::int64_t to_offset,
                   std::size_t size, unsigned splice_flags = 0) noexcept {
        describe(Kind::splice, from);
        transfer(nullptr, size, from_offset, Extent::once, static_cast<int>(splice_flags));
        other_fd = to;
        other_offset = to_offset;
    }

    /// copy_file_range(2).
    void to_copy_range(int from, std::int64_t from_offset, int to, std::int64_t to_offset,
                       std::size_t size) noexcept {
        describe(Kind::copy_range, from);
        transfer(nullptr, size, from_offset, Extent::once, 0);
        other_fd = to;
        other_offset = to_offset;
    }

    /// ioctl(2) FICLONE: `to` shares all blocks of `from`. Ends with -EOPNOTSUPP, -EXDEV, -EINVAL
    /// or -ENOTTY if the file system cannot do it.
    void to_clone(int from, int to) noexcept {
        describe(Kind::clone, from);
        other_fd = to;
    }

    /// Opens `file` for reading, reads all of it, and closes it. The result is its size. The bytes
    /// are in `buffer`, which is `into` at first (null is allowed if `capacity` is 0).
    ///
    /// For a file of more than `capacity` bytes, `grow_buffer` is called; if the file reports its
    /// size, with the capacity that it needs. Without that function the operation fails with
    /// -EFBIG.
    void to_read_file(const char* file, void* into, std::size_t capacity,
                      Grow grow_buffer = nullptr, int open_flags = 0,
                      int directory = AT_FDCWD) noexcept {
        describe(Kind::read_file, directory, file);
        transfer(into, capacity, 0, Extent::whole, open_flags | O_RDONLY | O_CLOEXEC);
        grow = grow_buffer;
    }

    /// Runs `function` on a worker thread, for what is not a single system call, such as listing a
    /// folder. A cancellation interrupts it only if it `may_block_indefinitely`: its system call
    /// then returns EINTR, after which `function` must return an error. EINTR without a
    /// cancellation is rare, and the caller begins anew.
    void to_call(Call function) noexcept {
        describe(Kind::call, -1);
        call = function;
    }

    /// Whether it has ended with -EAGAIN because no thread could be started for it.
    [[nodiscard]] bool found_no_thread() const noexcept { return engine.without_thread; }

    /// Whether it was started and `on_complete` has not been called yet.
    [[nodiscard]] bool in_flight() const noexcept { return in_flight_; }

    OnComplete on_complete;
    Grow grow = nullptr;
    Call call = nullptr;
    const char* path = nullptr;
    const char* other_path = nullptr;
    void* buffer = nullptr; ///< or the iovec array, or the struct statx
    std::uint64_t length = 0;
    std::int64_t offset = 0;
    std::int64_t other_offset = 0;
    std::uint64_t transferred =
        0;       ///< bytes transferred so far; valid also after an error or a cancellation
    int fd = -1; ///< or the directory that `path` is relative to
    int other_fd = -1;
    int flags = 0;
    std::uint32_t mode = 0;
    Kind kind = Kind::none;
    Extent extent = Extent::once;

    /// The owner of an open or a `read_file` may set it after `to_open`: the path is not a regular
    /// file, and opening it may wait for another process. Saves the engine a look at the path.
    bool may_block_indefinitely = false;

    /// The engine's data between `start` and `on_complete`. Nobody else uses it. It is here, and
    /// not in the engine, so that starting an operation allocates nothing.
    struct EngineState {
        enum class Stage : std::uint8_t {
            idle,
            started,   ///< waits for `flush`
            queued,    ///< waits for a worker
            waiting,   ///< for its descriptor to become ready
            running,   ///< executed by a worker thread or the kernel
            completed, ///< `on_complete` is due
        };

        ListHook<FileOperation> hook;
        std::int64_t result = 0;
        Stage stage = Stage::idle;
        bool in_ring = false; ///< executed by the ring, not by a worker thread
        bool cancelled = false;
        bool cancel_pending = false;         ///< the cancellation is not prepared yet
        std::uint8_t completions_due = 0;    ///< completions that the kernel still owes
        std::uint8_t awaited_part = 0;       ///< which of them is next, a `UringEngine::Part`
        bool may_block_indefinitely = false; ///< as the operation's own, found by the engine
        bool patient = false;                ///< it is a patient thread's
        bool without_thread = false;         ///< see `found_no_thread`
        short awaited_events = 0;            ///< while it waits for `awaited_fd` (poll(2))
        int awaited_fd = -1;

        // For a `read_file`.
        bool needs_capacity = false; ///< `result` is the capacity that it needs
        bool tail_requested = false; ///< a request for `tail` was submitted
        bool tail_read = false;      ///< `tail` is the byte beyond the buffer's end
        char tail = 0;
        std::int16_t slot = -1; ///< the fixed file that the ring has opened
        int open_fd = -1;       ///< opened by a worker thread; of an `open`, the first attempt's
        std::int32_t open_result = 0; ///< the result of the open request
        std::int32_t tail_result = 0;
    };
    EngineState engine;

private:
    friend class FileEngine;

    void describe(Kind what, int descriptor, const char* file = nullptr) noexcept {
        kind = what;
        fd = descriptor;
        path = file;
        extent = Extent::once;
        may_block_indefinitely = false;
        transferred = 0;
    }

    void transfer(void* memory, std::size_t size, std::int64_t position, Extent how,
                  int call_flags) noexcept {
        buffer = memory;
        length = size;
        offset = position;
        extent = how;
        flags = call_flags;
    }

    bool in_flight_ = false;
};

} // namespace penstock::io
