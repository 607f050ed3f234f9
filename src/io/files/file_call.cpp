#include "io/files/file_call.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <utility>

#include <linux/fs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <penstock/io/files/read_status.hpp>

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

/// A call that waits for another process: a cancellation interrupts it.
template <typename Call>
std::int64_t call_until_cancelled(CallContext& context, Call call) noexcept {
    while (true) {
        const std::int64_t result = call();
        if (result >= 0) {
            return result;
        }
        if (errno != EINTR) {
            return -errno;
        }
        if (context.cancelled()) {
            return -ECANCELED;
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

/// Whether an error may mean that a sandbox or an old kernel refuses the system call itself.
bool is_refusal(int error) noexcept {
    return error == EPERM || error == ENOSYS;
}

/// The type of a descriptor that may be not ready; S_IFREG of every other one.
mode_t stream_type(int fd) noexcept {
    const int type = file_type(fd);
    return type < 0 || S_ISBLK(type) || S_ISDIR(type) ? S_IFREG : static_cast<mode_t>(type);
}

bool is_regular(int fd) noexcept {
    return stream_type(fd) == S_IFREG;
}

/// renameat2(2), or renameat(2) where a sandbox forbids it and no flag needs it.
int rename_file(int from_folder, const char* from, int to_folder, const char* to,
                unsigned flags) noexcept {
    const int renamed = renameat2(from_folder, from, to_folder, to, flags);
    return renamed != 0 && flags == 0 && is_refusal(errno)
               ? renameat(from_folder, from, to_folder, to)
               : renamed;
}

bool has_parts(Kind kind) noexcept {
    return kind == Kind::readv || kind == Kind::writev;
}

/// preadv(2) or pwritev(2), or without a position readv(2) or writev(2): for sandboxes that forbid
/// the newer calls.
ssize_t transfer_without_flags(bool reads, int fd, const iovec* parts, int count,
                               std::int64_t position) noexcept {
    if (position == FileOperation::current_position) {
        return reads ? ::readv(fd, parts, count) : ::writev(fd, parts, count);
    }
    return reads ? ::preadv(fd, parts, count, position) : ::pwritev(fd, parts, count, position);
}

/// One preadv2(2) or pwritev2(2). A signal may interrupt it.
std::int64_t transfer_once(const FileOperation& operation, const Span& span, int flags) noexcept {
    iovec single{.iov_base = span.memory, .iov_len = span.size};
    const bool parts = has_parts(operation.kind);
    const bool reads = is_read(operation.kind);
    const iovec* array = parts ? static_cast<const iovec*>(span.memory) : &single;
    const int count = parts ? static_cast<int>(span.size) : 1;
    ssize_t moved = reads ? preadv2(operation.fd, array, count, span.position, flags)
                          : pwritev2(operation.fd, array, count, span.position, flags);
    if (moved < 0 && is_refusal(errno)) {
        if (flags != 0) {
            return errno == EPERM && is_regular(operation.fd) ? -EPERM : -EOPNOTSUPP;
        }
        moved = transfer_without_flags(reads, operation.fd, array, count, span.position);
    }
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

bool is_ready(int fd, short events) noexcept {
    pollfd watched{.fd = fd, .events = events, .revents = 0};
    return poll(&watched, 1, 0) != 0;
}

/// Ends this attempt until the descriptor is ready.
std::int64_t wait_for(const FileOperation& operation, CallContext& context) noexcept {
    context.awaited_fd = operation.fd;
    context.awaited_events = awaited_by(operation);
    return waits_for_descriptor;
}

/// A FIFO that is ready has room for so many bytes (pipe(7)): a longer write would wait for its
/// reader.
Span fitting_a_fifo(const FileOperation& operation, Span span) noexcept {
    if (!is_read(operation.kind) && !has_parts(operation.kind)) {
        span.size = std::min<std::uint32_t>(span.size, PIPE_BUF);
    }
    return span;
}

std::int64_t transfer_in_stream(const FileOperation& operation, const Span& span, int flags,
                                mode_t type, CallContext& context) noexcept {
    const short events = awaited_by(operation);
    // Drivers of devices may ignore RWF_NOWAIT and wait, so they are not tried with it.
    if (!S_ISCHR(type)) {
        const std::int64_t count = transfer_uninterrupted(operation, span, flags | RWF_NOWAIT);
        if (count != -EOPNOTSUPP && count != -EAGAIN) {
            return count;
        }
        // A descriptor that is ready but not for RWF_NOWAIT would be waited for without a pause.
        if (count == -EAGAIN && !(context.woken && is_ready(operation.fd, events))) {
            return wait_for(operation, context);
        }
    }
    if (!is_ready(operation.fd, events)) {
        return wait_for(operation, context);
    }
    if (!context.patient) {
        return needs_patience;
    }
    const std::int64_t count = transfer_until_cancelled(
        operation, S_ISFIFO(type) ? fitting_a_fifo(operation, span) : span, flags, context);
    return count == -EAGAIN ? wait_for(operation, context) : count; // it has O_NONBLOCK
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
    if ((flags & RWF_NOWAIT) == 0) {
        const mode_t type = stream_type(operation.fd);
        if (type != S_IFREG) {
            return transfer_in_stream(operation, span, flags, type, context);
        }
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

/// Whether opening the path may wait for another process: a FIFO for its other end, a device for
/// whatever its driver waits for. If another process makes the path a FIFO after this look, the
/// open holds its thread until it is cancelled.
bool may_wait_in_open(const FileOperation& operation) noexcept {
    if ((operation.flags & (O_PATH | O_NONBLOCK | O_DIRECTORY)) != 0) {
        return false;
    }
    struct stat status{};
    const int follow = (operation.flags & O_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0;
    return fstatat(operation.fd, operation.path, &status, follow) == 0 &&
           (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode));
}

/// openat(2). On a FIFO it waits for the other end.
std::int64_t open_file(const FileOperation& operation, CallContext& context) noexcept {
    if (!context.patient && may_wait_in_open(operation)) {
        return needs_patience;
    }
    return call_until_cancelled(context, [&] {
        return openat(operation.fd, operation.path, operation.flags, operation.mode);
    });
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
    const bool continues = result == waits_for_descriptor || result == needs_patience;
    if (!operation.engine.needs_capacity && !continues) {
        close_opened_fd(operation);
    }
    return result;
}

} // namespace

bool is_stream(int fd) noexcept {
    return stream_type(fd) != S_IFREG;
}

bool is_stream_transfer(const FileOperation& operation) noexcept {
    const bool transfers = operation.kind == Kind::read || operation.kind == Kind::readv ||
                           operation.kind == Kind::write || operation.kind == Kind::writev;
    return transfers && operation.offset == FileOperation::current_position &&
           (operation.flags & RWF_NOWAIT) == 0 && is_stream(operation.fd);
}

short awaited_by(const FileOperation& operation) noexcept {
    return is_read(operation.kind) ? POLLIN : POLLOUT;
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
            return read_status(it.fd, it.path, it.flags, it.mode,
                               *static_cast<struct statx*>(it.buffer));
        });
    case Kind::rename:
        return call_uninterrupted([&] {
            return rename_file(it.fd, it.path, it.other_fd, it.other_path,
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
    case Kind::splice: // one of the two is a pipe, and SPLICE_F_NONBLOCK is not for the other one
        if (!context.patient) {
            return needs_patience;
        }
        return call_until_cancelled(context, [&] {
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
