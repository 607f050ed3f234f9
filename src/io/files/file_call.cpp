#include "io/files/file_call.hpp"

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

/// The first buffer of a `read_file` whose file has no size, as in /proc.
constexpr std::uint64_t smallest_buffer = std::uint64_t{16} * 1024;

template <typename Call> std::int64_t call_uninterrupted(Call call) noexcept {
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

/// A `loff_t*` argument. Null means the file's own position.
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

/// One preadv2(2) or pwritev2(2). A signal may interrupt it.
std::int64_t transfer_once(const FileOperation& operation, const Span& span, int flags) noexcept {
    iovec single{.iov_base = span.memory, .iov_len = span.size};
    const bool parts = has_parts(operation.kind);
    const iovec* array = parts ? static_cast<const iovec*>(span.memory) : &single;
    const int count = parts ? static_cast<int>(span.size) : 1;
    const ssize_t moved = is_read(operation.kind)
                              ? preadv2(operation.fd, array, count, span.position, flags)
                              : pwritev2(operation.fd, array, count, span.position, flags);
    return moved >= 0 ? moved : -errno;
}

/// The same, repeated after a signal.
std::int64_t transfer_uninterrupted(const FileOperation& operation, const Span& span,
                                    int flags) noexcept {
    std::int64_t count = -EINTR;
    while (count == -EINTR) {
        count = transfer_once(operation, span, flags);
    }
    return count;
}

/// The same for a call that may block although the descriptor was ready: another reader may take
/// the data first, and a large write needs more room than there is. A cancellation interrupts it.
std::int64_t transfer_until_cancelled(const FileOperation& operation, const Span& span, int flags,
                                      CallContext& context) noexcept {
    while (true) {
        const std::int64_t count = transfer_once(operation, span, flags);
        if (count != -EINTR) {
            return count;
        }
        if (context.cancelled()) {
            return -ECANCELED;
        }
    }
}

std::int64_t transfer_in_stream(const FileOperation& operation, const Span& span, int flags,
                                CallContext& context) noexcept {
    const short events = is_read(operation.kind) ? POLLIN : POLLOUT;
    while (true) {
        if (const int error = context.wait_until_ready(operation.fd, events)) {
            return error;
        }
        // A terminal's driver ignores RWF_NOWAIT and waits.
        std::int64_t count = transfer_until_cancelled(operation, span, flags | RWF_NOWAIT, context);
        if (count == -EOPNOTSUPP) { // a FIFO
            count = transfer_until_cancelled(operation, span, flags, context);
        }
        if (count != -EAGAIN) {
            return count;
        }
        // Another reader took the data.
    }
}

std::int64_t transfer_step(const FileOperation& operation, CallContext& context) noexcept {
    Span span = remaining_span(operation, context.max_transfer);
    const int flags = operation.kind == Kind::read_file ? 0 : operation.flags;
    if (span.position != FileOperation::current_position) {
        const std::int64_t count = transfer_uninterrupted(operation, span, flags);
        if (count != -ESPIPE) {
            return count;
        }
        span.position = FileOperation::current_position;
    }
    if ((flags & RWF_NOWAIT) == 0 && is_stream(operation.fd)) {
        return transfer_in_stream(operation, span, flags, context);
    }
    return transfer_uninterrupted(operation, span, flags);
}

std::int64_t transfer(FileOperation& operation, CallContext& context) noexcept {
    while (true) {
        const std::int64_t count = transfer_step(operation, context);
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

/// openat(2). On a FIFO it waits for the other end; a cancellation interrupts it.
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

/// Opens the file and compares its size with the buffer's.
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
    return S_ISREG(status.st_mode) && size > operation.length ? request_capacity(operation, size)
                                                              : 0;
}

/// Fills the buffer, then reads one byte more, which shows the end of the file.
std::int64_t continue_read_file(FileOperation& operation, CallContext& context) noexcept {
    const int folder = std::exchange(operation.fd, operation.engine.open_fd);
    std::int64_t result = static_cast<std::int64_t>(operation.transferred);
    if (operation.transferred < operation.length) {
        result = transfer(operation, context);
    }
    if (result >= 0 && operation.transferred == operation.length) {
        FileOperation tail(nullptr);
        tail.to_read(operation.fd, &operation.engine.tail, 1,
                     static_cast<std::int64_t>(operation.transferred));
        const std::int64_t count = transfer_step(tail, context);
        operation.engine.tail_read = count == 1;
        if (count != 0) {
            result = count < 0 ? count : request_capacity(operation, 0);
        }
    }
    operation.fd = folder;
    return result;
}

std::int64_t read_file(FileOperation& operation, CallContext& context) noexcept {
    operation.engine.needs_capacity = false;
    std::int64_t result = 0;
    if (operation.engine.open_fd < 0) {
        result = begin_read_file(operation, context);
    }
    if (result >= 0 && !operation.engine.needs_capacity) {
        result = continue_read_file(operation, context);
    }
    if (!operation.engine.needs_capacity) {
        close_opened_fd(operation);
    }
    return result;
}

} // namespace

bool is_stream(int fd) noexcept {
    struct stat status{};
    return fstat(fd, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode) &&
           !S_ISDIR(status.st_mode);
}

Span remaining_span(const FileOperation& operation, std::uint32_t max_transfer) noexcept {
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

std::int64_t request_capacity(FileOperation& operation, std::uint64_t size) noexcept {
    if (operation.grow == nullptr) {
        return -EFBIG;
    }
    operation.engine.needs_capacity = true;
    if (size <= operation.transferred) {
        size = std::max(operation.length * 2, smallest_buffer);
    }
    return static_cast<std::int64_t>(size);
}

void close_opened_fd(FileOperation& operation) noexcept {
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
    case Kind::close: // not repeated after an error: the descriptor is closed (close(2), NOTES)
        return ::close(it.fd) == 0 || errno == EINTR ? 0 : -errno;
    case Kind::read:
    case Kind::readv:
    case Kind::write:
    case Kind::writev:
        return transfer(it, context);
    case Kind::fsync:
        return call_uninterrupted([&] { return ::fsync(it.fd); });
    case Kind::fdatasync:
        return call_uninterrupted([&] { return ::fdatasync(it.fd); });
    case Kind::truncate:
        return call_uninterrupted([&] { return ftruncate(it.fd, it.offset); });
    case Kind::allocate:
        return call_uninterrupted(
            [&] { return fallocate(it.fd, it.flags, it.offset, static_cast<off_t>(it.length)); });
    case Kind::advise:
        return -posix_fadvise(it.fd, it.offset, static_cast<off_t>(it.length), it.flags);
    case Kind::stat:
        return call_uninterrupted([&] {
            return statx(it.fd, it.path, it.flags, it.mode, static_cast<struct statx*>(it.buffer));
        });
    case Kind::rename:
        return call_uninterrupted([&] {
            return renameat2(it.fd, it.path, it.other_fd, it.other_path,
                             static_cast<unsigned>(it.flags));
        });
    case Kind::unlink:
        return call_uninterrupted([&] { return unlinkat(it.fd, it.path, it.flags); });
    case Kind::make_directory:
        return call_uninterrupted([&] { return mkdirat(it.fd, it.path, it.mode); });
    case Kind::link:
        return call_uninterrupted(
            [&] { return linkat(it.fd, it.path, it.other_fd, it.other_path, it.flags); });
    case Kind::make_symlink:
        return call_uninterrupted([&] { return symlinkat(it.path, it.fd, it.other_path); });
    case Kind::splice:
        return call_uninterrupted([&] {
            return ::splice(it.fd, from.get(), it.other_fd, to.get(), it.length,
                            static_cast<unsigned>(it.flags));
        });
    case Kind::copy_range:
        return call_uninterrupted([&] {
            return copy_file_range(it.fd, from.get(), it.other_fd, to.get(), it.length, 0);
        });
    case Kind::clone:
        return call_uninterrupted([&] { return ioctl(it.other_fd, FICLONE, it.fd); });
    case Kind::read_file:
        return read_file(it, context);
    case Kind::call:
        return it.call(it);
    }
    return -EINVAL;
}

} // namespace penstock::io
