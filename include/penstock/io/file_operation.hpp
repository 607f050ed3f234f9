#pragma once

#include <cstddef>
#include <cstdint>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

namespace penstock::io {

/// One file operation: a struct that its waiter embeds, so that starting one allocates nothing.
///
/// Its owner says what is to be done with one of the members below, hands it to `FileEngine::start`,
/// and then keeps it, its paths and its buffers alive and in place until `on_complete`, also after a
/// cancel: the kernel may write into a buffer until its final word. `on_complete` comes exactly once
/// for each `start`, on the loop's thread; in it the operation may be started anew or destroyed.
///
/// Errors are negated errno values, those of the system call of the same name.
struct FileOperation {
    /// `result` is a byte count, a descriptor, 0, or a negated errno.
    using OnComplete = void (*)(FileOperation&, std::int64_t result);

    /// Returns a buffer of `capacity` bytes that begins with the `transferred` bytes of the old one,
    /// as realloc(3) does, or null (the operation then ends with -ENOMEM). The loop's thread.
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

    /// As an offset: the file's own position, which the transfer moves.
    static constexpr std::int64_t current_position = -1;

    /// Whether a transfer ends with what one system call moved, or goes on until all is moved. A read
    /// also ends at the end of the file. Fails where a later part fails: `transferred` then tells
    /// what came before.
    enum class Extent : std::uint8_t { once, whole };

    explicit FileOperation(OnComplete function) noexcept : on_complete(function) {}

    /// openat(2); O_CLOEXEC is added. Yields a descriptor. One that is cancelled never does: what it
    /// may have opened the engine closes again.
    ///
    /// Opening a FIFO without O_NONBLOCK waits for the other end, until it is cancelled. In a worker
    /// thread it is a signal that ends it, a real-time one that the program has no handler for.
    void to_open(const char* file, int open_flags, mode_t permissions = 0,
                 int directory = AT_FDCWD) noexcept {
        describe(Kind::open, directory, file);
        flags = open_flags | O_CLOEXEC;
        mode = permissions;
    }

    /// close(2). It is never cut short: once started the descriptor is gone, also after a cancel.
    void to_close(int descriptor) noexcept { describe(Kind::close, descriptor); }

    /// preadv2(2). `rw_flags` are RWF_ bits. What has no positions (a pipe, a terminal) ignores
    /// `position`. Where there is nothing to be read yet the operation waits, with O_NONBLOCK too; only
    /// RWF_NOWAIT has it end with -EAGAIN.
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

    /// preadv2(2) into `count` parts (at most IOV_MAX). With `Extent::whole` the array itself is
    /// moved along.
    void to_readv(int descriptor, iovec* parts, std::size_t count, std::int64_t position,
                  Extent how = Extent::once, int rw_flags = 0) noexcept {
        describe(Kind::readv, descriptor);
        transfer(parts, count, position, how, rw_flags);
    }

    /// pwritev2(2) of `count` parts, else as `to_readv`.
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

    /// statx(2) into `result`. For an open descriptor `file` is "", `directory` the descriptor, and
    /// `at_flags` holds AT_EMPTY_PATH.
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

    /// unlinkat(2); with AT_REMOVEDIR it is rmdir(2).
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

    /// linkat(2): `to` becomes another name of `from`.
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

    /// splice(2); one of the two is a pipe, whose offset is `current_position`.
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

    /// ioctl(2) FICLONE: `to` shares all of `from`'s blocks. -EOPNOTSUPP, -EXDEV, -EINVAL or -ENOTTY
    /// where the file system cannot.
    void to_clone(int from, int to) noexcept {
        describe(Kind::clone, from);
        other_fd = to;
    }

    /// Opens `file` for reading, reads all of it, and closes it. Yields its size; the bytes are in
    /// `buffer`, which begins as `into` (may be null when `capacity` is 0).
    ///
    /// A file of at most `capacity` bytes needs no more. For any other `grow_buffer` is asked for room,
    /// as far as the file tells its size just as much as it needs; without that function it fails
    /// with -EFBIG.
    void to_read_file(const char* file, void* into, std::size_t capacity,
                      Grow grow_buffer = nullptr, int open_flags = 0,
                      int directory = AT_FDCWD) noexcept {
        describe(Kind::read_file, directory, file);
        transfer(into, capacity, 0, Extent::whole, open_flags | O_RDONLY | O_CLOEXEC);
        grow = grow_buffer;
    }

    /// Runs `function` on a worker thread: for what has no system call of its own, a folder's listing
    /// say. It is not cut short by a cancel.
    void to_call(Call function) noexcept {
        describe(Kind::call, -1);
        call = function;
    }

    /// Started, and `on_complete` has not come yet.
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
    std::uint64_t transferred = 0; ///< bytes moved so far; true also after an error or a cancel
    int fd = -1;                   ///< or the folder that `path` is relative to
    int other_fd = -1;
    int flags = 0;
    std::uint32_t mode = 0;
    Kind kind = Kind::none;
    Extent extent = Extent::once;

    /// For the owner of an open or a `read_file`, after `to_open`: this is no regular file, and the
    /// opening may wait for somebody. A thread beside the usual ones then does it.
    bool patient = false;

    /// What the engine keeps here between `start` and `on_complete`; nobody else touches it.
    struct EnginePart {
        enum class Place : std::uint8_t {
            nowhere,
            started,   ///< waits for `flush`
            queued,    ///< waits for a worker
            running,   ///< in a worker's hands, or the kernel's
            completed, ///< `on_complete` is due
        };

        FileOperation* next = nullptr;
        FileOperation* previous = nullptr;
        std::int64_t result = 0;
        Place place = Place::nowhere;
        bool in_ring = false; ///< in the hands of the ring, not of the worker threads
        bool cancelled = false;
        bool cancel_due = false;  ///< the ring had no room for the cancel yet
        std::uint8_t answers = 0; ///< of the kernel that are still to come
        std::uint8_t awaited = 0; ///< the next one of them, a `UringEngine::Part`
        bool patient = false;     ///< found to be as the operation's `patient` says

        // Of a `read_file`.
        bool wants_room = false; ///< `result` is the capacity that it needs
        bool asks_tail = false;  ///< the kernel was asked for `tail`
        bool has_tail = false;   ///< `tail` was read beyond the buffer's end
        char tail = 0;
        std::int16_t slot = -1;  ///< where the ring has it open
        int open_fd = -1;        ///< where a worker has it open; of an `open`, what keeps its place
        std::int32_t opened = 0; ///< the kernel's answer to the open
        std::int32_t tail_count = 0;
    };
    EnginePart engine;

private:
    friend class FileEngine;

    void describe(Kind what, int descriptor, const char* file = nullptr) noexcept {
        kind = what;
        fd = descriptor;
        path = file;
        extent = Extent::once;
        patient = false;
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
