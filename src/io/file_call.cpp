#include "io/file_call.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include <linux/fs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace penstock::io {

namespace {

using Kind = FileOperation::Kind;

/// A `read_file` of a file that does not tell its size (in /proc, say) begins with as much.
constexpr std::uint64_t smallest_room = std::uint64_t{16} * 1024;

template <typename Call> std::int64_t called(Call call) noexcept {
    while (true) {
        const std::int64_t result = call();
        if (result >= 0) {
            return result;
        }
        if (errno != EINTR) {
            return -errno;
        }
    }
}

/// A `loff_t*` argument: null stands for the file's own position.
struct OffsetArgument {
    explicit OffsetArgument(std::int64_t position) noexcept : value(position) {}
    [[nodiscard]] loff_t* get() noexcept {
        return value == FileOperation::current_position ? nullptr : &value;
    }
    loff_t value;
};

bool is_read(Kind kind) noexcept {
    return kind == Kind::read || kind == Kind::readv || kind == Kind::read_file;
}

bool has_parts(Kind kind) noexcept {
    return kind == Kind::readv || kind == Kind::writev;
}

/// One preadv2(2) or pwritev2(2), which a signal may end.
std::int64_t try_to_move(const FileOperation& operation, const Span& span, int flags) noexcept {
    iovec single{.iov_base = span.memory, .iov_len = span.size};
    const bool parts = has_parts(operation.kind);
    const iovec* array = parts ? static_cast<const iovec*>(span.memory) : &single;
    const int count = parts ? static_cast<int>(span.size) : 1;
    const ssize_t moved = is_read(operation.kind)
                              ? preadv2(operation.fd, array, count, span.position, flags)
                              : pwritev2(operation.fd, array, count, span.position, flags);
    return moved >= 0 ? moved : -errno;
}

/// The same, made again after a signal.
std::int64_t move(const FileOperation& operation, const Span& span, int flags) noexcept {
    std::int64_t count = -EINTR;
    while (count == -EINTR) {
        count = try_to_move(operation, span, flags);
    }
    return count;
}

/// The same where it may block, though the descriptor was ready: another reader may be faster, and a
/// large write waits for more room than there is. A cancel interrupts it.
std::int64_t move_until_cancelled(const FileOperation& operation, const Span& span, int flags,
                                  CallContext& context) noexcept {
    while (true) {
        const std::int64_t count = try_to_move(operation, span, flags);
        if (count != -EINTR) {
            return count;
        }
        if (context.cancelled()) {
            return -ECANCELED;
        }
    }
}

std::int64_t move_in_stream(const FileOperation& operation, const Span& span, int flags,
                            CallContext& context) noexcept {
    const short events = is_read(operation.kind) ? POLLIN : POLLOUT;
    while (true) {
        if (const int error = context.wait_until_ready(operation.fd, events)) {
            return error;
        }
        // A terminal's driver waits in spite of RWF_NOWAIT.
        std::int64_t count = move_until_cancelled(operation, span, flags | RWF_NOWAIT, context);
        if (count == -EOPNOTSUPP) { // a FIFO, say
            count = move_until_cancelled(operation, span, flags, context);
        }
        if (count != -EAGAIN) {
            return count;
        }
        // Another reader was faster.
    }
}

std::int64_t move_once(const FileOperation& operation, CallContext& context) noexcept {
    Span span = rest_of(operation, context.max_transfer);
    const int flags = operation.kind == Kind::read_file ? 0 : operation.flags;
    if (span.position != FileOperation::current_position) {
        const std::int64_t count = move(operation, span, flags);
        if (count != -ESPIPE) {
            return count;
        }
        span.position = FileOperation::current_position;
    }
    if ((flags & RWF_NOWAIT) == 0 && is_stream(operation.fd)) {
        return move_in_stream(operation, span, flags, context);
    }
    return move(operation, span, flags);
}

std::int64_t transfer(FileOperation& operation, CallContext& context) noexcept {
    while (true) {
        const std::int64_t count = move_once(operation, context);
        if (count < 0) {
            return count;
        }
        if (advance(operation, static_cast<std::uint32_t>(count))) {
            return static_cast<std::int64_t>(operation.transferred);
        }
        if (count == 0) {
            return is_read(operation.kind) ? static_cast<std::int64_t>(operation.transferred)
                                           : -EIO;
        }
        if (context.cancelled()) {
            return -ECANCELED;
        }
    }
}

/// openat(2), which on a FIFO waits for its other end: a cancel interrupts it.
std::int64_t open_file(const FileOperation& operation, CallContext& context) noexcept {
    while (true) {
        const int fd = openat(operation.fd, operation.path, operation.flags, operation.mode);
        if (fd >= 0) {
            return fd;
        }
        if (errno != EINTR) {
            return -errno;
        }
        if (context.cancelled()) {
            return -ECANCELED;
        }
    }
}

/// Opens the file and compares its size with the room that there is.
std::int64_t begin_read_file(FileOperation& operation, CallContext& context) noexcept {
    const std::int64_t fd = open_file(operation, context);
    if (fd < 0) {
        return fd;
    }
    operation.engine.open_fd = static_cast<int>(fd);
    struct stat status{};
    if (fstat(operation.engine.open_fd, &status) != 0) {
        return -errno;
    }
    const auto size = static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0));
    return S_ISREG(status.st_mode) && size > operation.length ? ask_for_room(operation, size) : 0;
}

/// Reads what there is room for, and then one byte more, which tells the end of the file.
std::int64_t go_on_with_read_file(FileOperation& operation, CallContext& context) noexcept {
    const int folder = std::exchange(operation.fd, operation.engine.open_fd);
    std::int64_t result = static_cast<std::int64_t>(operation.transferred);
    if (operation.transferred < operation.length) {
        result = transfer(operation, context);
    }
    if (result >= 0 && operation.transferred == operation.length) {
        FileOperation tail(nullptr);
        tail.to_read(operation.fd, &operation.engine.tail, 1,
                     static_cast<std::int64_t>(operation.transferred));
        const std::int64_t count = move_once(tail, context);
        operation.engine.has_tail = count == 1;
        if (count != 0) {
            result = count < 0 ? count : ask_for_room(operation, 0);
        }
    }
    operation.fd = folder;
    return result;
}

std::int64_t read_file(FileOperation& operation, CallContext& context) noexcept {
    operation.engine.wants_room = false;
    std::int64_t result = 0;
    if (operation.engine.open_fd < 0) {
        result = begin_read_file(operation, context);
    }
    if (result >= 0 && !operation.engine.wants_room) {
        result = go_on_with_read_file(operation, context);
    }
    if (!operation.engine.wants_room) {
        close_what_it_opened(operation);
    }
    return result;
}

} // namespace

bool is_stream(int fd) noexcept {
    struct stat status{};
    return fstat(fd, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode) &&
           !S_ISDIR(status.st_mode);
}

Span rest_of(const FileOperation& operation, std::uint32_t max_transfer) noexcept {
    const bool follows = operation.offset != FileOperation::current_position;
    const std::int64_t position =
        follows ? operation.offset + static_cast<std::int64_t>(operation.transferred)
                : operation.offset;
    if (has_parts(operation.kind)) {
        return {operation.buffer, static_cast<std::uint32_t>(operation.length), position};
    }
    const std::uint64_t left = operation.length - operation.transferred;
    return {static_cast<char*>(operation.buffer) + operation.transferred,
            static_cast<std::uint32_t>(std::min<std::uint64_t>(left, max_transfer)), position};
}

bool advance(FileOperation& operation, std::uint32_t count) noexcept {
    operation.transferred += count;
    if (operation.extent == FileOperation::Extent::once) {
        return true;
    }
    if (!has_parts(operation.kind)) {
        return operation.transferred == operation.length;
    }
    std::size_t moved = count;
    auto* part = static_cast<iovec*>(operation.buffer);
    while (operation.length != 0 && moved >= part->iov_len) {
        moved -= part->iov_len;
        ++part;
        --operation.length;
    }
    operation.buffer = part;
    if (operation.length == 0) {
        return true;
    }
    part->iov_base = static_cast<char*>(part->iov_base) + moved;
    part->iov_len -= moved;
    return false;
}

std::int64_t ask_for_room(FileOperation& operation, std::uint64_t size) noexcept {
    if (operation.grow == nullptr) {
        return -EFBIG;
    }
    operation.engine.wants_room = true;
    if (size <= operation.transferred) {
        size = std::max(operation.length * 2, smallest_room);
    }
    return static_cast<std::int64_t>(size);
}

void close_what_it_opened(FileOperation& operation) noexcept {
    if (operation.engine.open_fd >= 0) {
        ::close(std::exchange(operation.engine.open_fd, -1));
    }
}

std::int64_t perform(FileOperation& operation, CallContext& context) noexcept {
    FileOperation& it = operation;
    OffsetArgument from(it.offset);
    OffsetArgument to(it.other_offset);
    switch (it.kind) {
    case Kind::none:
        return -EINVAL;
    case Kind::open:
        return open_file(it, context);
    case Kind::close: // once, whatever it says: the descriptor is gone (close(2), NOTES)
        return ::close(it.fd) == 0 || errno == EINTR ? 0 : -errno;
    case Kind::read:
    case Kind::readv:
    case Kind::write:
    case Kind::writev:
        return transfer(it, context);
    case Kind::fsync:
        return called([&] { return ::fsync(it.fd); });
    case Kind::fdatasync:
        return called([&] { return ::fdatasync(it.fd); });
    case Kind::truncate:
        return called([&] { return ftruncate(it.fd, it.offset); });
    case Kind::allocate:
        return called(
            [&] { return fallocate(it.fd, it.flags, it.offset, static_cast<off_t>(it.length)); });
    case Kind::advise:
        return -posix_fadvise(it.fd, it.offset, static_cast<off_t>(it.length), it.flags);
    case Kind::stat:
        return called([&] {
            return statx(it.fd, it.path, it.flags, it.mode, static_cast<struct statx*>(it.buffer));
        });
    case Kind::rename:
        return called([&] {
            return renameat2(it.fd, it.path, it.other_fd, it.other_path,
                             static_cast<unsigned>(it.flags));
        });
    case Kind::unlink:
        return called([&] { return unlinkat(it.fd, it.path, it.flags); });
    case Kind::make_directory:
        return called([&] { return mkdirat(it.fd, it.path, it.mode); });
    case Kind::link:
        return called([&] { return linkat(it.fd, it.path, it.other_fd, it.other_path, it.flags); });
    case Kind::make_symlink:
        return called([&] { return symlinkat(it.path, it.fd, it.other_path); });
    case Kind::splice:
        return called([&] {
            return ::splice(it.fd, from.get(), it.other_fd, to.get(), it.length,
                            static_cast<unsigned>(it.flags));
        });
    case Kind::copy_range:
        return called([&] {
            return copy_file_range(it.fd, from.get(), it.other_fd, to.get(), it.length, 0);
        });
    case Kind::clone:
        return called([&] { return ioctl(it.other_fd, FICLONE, it.fd); });
    case Kind::read_file:
        return read_file(it, context);
    case Kind::call:
        return it.call(it);
    }
    return -EINVAL;
}

} // namespace penstock::io
