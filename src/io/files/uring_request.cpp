#include "io/files/uring_request.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>

#include <penstock/io/files/local_status.hpp>
#include <penstock/io/files/open_from_cache.hpp>
#include <penstock/io/files/read_status.hpp>
#include <penstock/io/files/uring_compat.hpp>
#include <penstock/owned_descriptor.hpp>

#include "io/files/file_call.hpp"

namespace penstock::io {

namespace {

using Kind = FileOperation::Kind;

std::uint64_t bytes_of(const FileOperation& operation) noexcept {
    if (operation.kind == Kind::read || operation.kind == Kind::write) {
        return operation.length - operation.transferred;
    }
    std::uint64_t bytes = 0;
    const auto* parts = static_cast<const iovec*>(operation.buffer);
    for (std::uint64_t i = 0; i < operation.length && bytes <= inline_limit; ++i) {
        bytes += parts[i].iov_len;
    }
    return bytes;
}

/// Whether a server or a daemon keeps the file of a transfer at a position. The kernel takes a file
/// of FUSE for one that can be polled and is always ready, and would wait for the daemon on the
/// thread that submits.
bool is_of_server(const FileOperation& operation) noexcept {
    struct statx status{};
    return operation.offset >= 0 &&
           read_status(operation.fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, local_status_mask,
                       status) == 0 &&
           storage_of(status) == Storage::remote;
}

void describe_transfer(io_uring_sqe& request, const FileOperation& operation,
                       std::uint32_t max_transfer) noexcept {
    const Span span = remaining_span(operation, max_transfer);
    io_uring_prep_rw(static_cast<int>(opcode_of(operation)), &request, operation.fd, span.memory,
                     span.size, static_cast<std::uint64_t>(span.position));
    request.rw_flags = operation.flags;
    if (std::min<std::uint64_t>(bytes_of(operation), max_transfer) > inline_limit ||
        is_of_server(operation)) {
        request.flags |= IOSQE_ASYNC;
    }
}

/// Whether closing may write the file back, on the thread that submits. File systems with delayed
/// allocation (ext4) allocate its blocks then: 23 ms for a gigabyte.
bool may_flush(int fd) noexcept {
    struct statx status{};
    const int found =
        read_status(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_SIZE, status);
    return found == 0 && S_ISREG(status.stx_mode) && status.stx_size > inline_limit;
}

} // namespace

namespace {

/// Opens what the kernel knows of a path, without an effect: the file, or else the innermost folder
/// above it. Empty if that is not in the path.
OwnedDescriptor open_known_part(const FileOperation& operation) noexcept {
    const int follow = operation.flags & O_NOFOLLOW;
    OwnedDescriptor found(
        open_from_cache(operation.path, O_PATH | O_CLOEXEC | follow, operation.fd));
    std::array<char, PATH_MAX> part; // NOLINT(*-member-init): filled as far as it is used
    std::string_view name(operation.path);
    while (found.get() == -EAGAIN && name.size() < part.size()) {
        const std::size_t slash = name.rfind('/');
        if (slash == std::string_view::npos || slash == 0) {
            break;
        }
        name = name.substr(0, slash);
        name.copy(part.data(), name.size());
        part[name.size()] = '\0';
        found.reset(open_from_cache(part.data(), O_PATH | O_CLOEXEC, operation.fd));
    }
    return found;
}

} // namespace

bool opens_on_server(const FileOperation& operation) noexcept {
    constexpr int changes = O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY);
    if ((operation.flags & (changes | O_PATH)) != 0) {
        return false; // a thread of the kernel does it in any case, or nobody is asked
    }
    const OwnedDescriptor found = open_known_part(operation);
    struct statx status{};
    return found.get() >= 0 &&
           read_status(found.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, local_status_mask,
                       status) == 0 &&
           storage_of(status) == Storage::remote;
}

unsigned opcode_of(const FileOperation& operation) noexcept {
    switch (operation.kind) {
    case Kind::open:
        return IORING_OP_OPENAT;
    case Kind::close:
        return IORING_OP_CLOSE;
    case Kind::read:
        return IORING_OP_READ;
    case Kind::readv:
        return IORING_OP_READV;
    case Kind::write:
        return IORING_OP_WRITE;
    case Kind::writev:
        return IORING_OP_WRITEV;
    case Kind::fsync:
    case Kind::fdatasync:
        return IORING_OP_FSYNC;
    case Kind::truncate:
        return uring::op_ftruncate;
    case Kind::allocate:
        return IORING_OP_FALLOCATE;
    case Kind::advise: // the request's length has 32 bits before Linux 6.10
        return operation.length <= UINT32_MAX ? unsigned{IORING_OP_FADVISE} : no_opcode;
    case Kind::stat:
        return IORING_OP_STATX;
    case Kind::rename:
        return IORING_OP_RENAMEAT;
    case Kind::unlink:
        return IORING_OP_UNLINKAT;
    case Kind::make_directory:
        return IORING_OP_MKDIRAT;
    case Kind::link:
        return IORING_OP_LINKAT;
    case Kind::make_symlink:
        return IORING_OP_SYMLINKAT;
    case Kind::splice:
        return IORING_OP_SPLICE;
    case Kind::none:
    case Kind::copy_range:
    case Kind::clone:
    case Kind::read_file:
    case Kind::call:
        break;
    }
    return no_opcode;
}

void describe(io_uring_sqe& request, const FileOperation& operation,
              std::uint32_t max_transfer) noexcept {
    const FileOperation& it = operation;
    const auto flags = static_cast<unsigned>(it.flags);
    switch (it.kind) {
    case Kind::open:
        io_uring_prep_openat(&request, it.fd, it.path, it.flags, it.mode);
        if (opens_on_server(it)) {
            request.flags |= IOSQE_ASYNC;
        }
        break;
    case Kind::close:
        io_uring_prep_close(&request, it.fd);
        if (may_flush(it.fd)) {
            request.flags |= IOSQE_ASYNC;
        }
        break;
    case Kind::read:
    case Kind::readv:
    case Kind::write:
    case Kind::writev:
        describe_transfer(request, it, max_transfer);
        break;
    case Kind::fsync:
        io_uring_prep_fsync(&request, it.fd, 0);
        break;
    case Kind::fdatasync:
        io_uring_prep_fsync(&request, it.fd, IORING_FSYNC_DATASYNC);
        break;
    case Kind::truncate:
        io_uring_prep_rw(uring::op_ftruncate, &request, it.fd, nullptr, 0,
                         static_cast<std::uint64_t>(it.offset));
        break;
    case Kind::allocate:
        io_uring_prep_fallocate(&request, it.fd, it.flags, it.offset,
                                static_cast<off_t>(it.length));
        break;
    case Kind::advise:
        io_uring_prep_fadvise(&request, it.fd, static_cast<std::uint64_t>(it.offset),
                              static_cast<off_t>(it.length), it.flags);
        break;
    case Kind::stat:
        io_uring_prep_statx(&request, it.fd, it.path, it.flags, it.mode,
                            static_cast<struct statx*>(it.buffer));
        break;
    case Kind::rename:
        io_uring_prep_renameat(&request, it.fd, it.path, it.other_fd, it.other_path, flags);
        break;
    case Kind::unlink:
        io_uring_prep_unlinkat(&request, it.fd, it.path, it.flags);
        break;
    case Kind::make_directory:
        io_uring_prep_mkdirat(&request, it.fd, it.path, it.mode);
        break;
    case Kind::link:
        io_uring_prep_linkat(&request, it.fd, it.path, it.other_fd, it.other_path, it.flags);
        break;
    case Kind::make_symlink:
        io_uring_prep_symlinkat(&request, it.path, it.fd, it.other_path);
        break;
    case Kind::splice:
        io_uring_prep_splice(
            &request, it.fd, it.offset, it.other_fd, it.other_offset,
            static_cast<unsigned>(std::min<std::uint64_t>(it.length, max_transfer)), flags);
        break;
    default:
        io_uring_prep_nop(&request);
        break;
    }
}

} // namespace penstock::io
