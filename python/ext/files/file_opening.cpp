// Operations that open a file, and that read a whole file.

#include "files/file_calls.hpp"
#include "files/file_memory.hpp"
#include "shared/cached_copy.hpp"
#include "shared/cached_opening.hpp"

#include <cerrno>
#include <new>

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

namespace penstock::python {

namespace {

/// Added to the bytes of a whole file: opening takes several system calls.
constexpr std::int64_t cost_of_opening = 12288;

/// The first buffer's size for a file whose size is not known without waiting.
constexpr std::int64_t first_guess = std::int64_t{64} << 10;

/// Flags with which open(2) only opens existing files.
constexpr int plain_flags = O_CLOEXEC | O_NOFOLLOW | O_NOATIME | O_NOCTTY;

/// `open_regular_from_cache` for an operation's path: a descriptor or a negated errno. Sets `size`
/// to the file's.
int open_regular(FileOperationObject* operation, int flags, std::int64_t& size) noexcept {
    const CachedFile found = open_regular_from_cache(PyBytes_AS_STRING(operation->path), flags);
    operation->may_block_indefinitely = operation->may_block_indefinitely || !found.regular;
    size = found.size;
    return found.fd;
}

Attempt attempt_open(FileOperationObject* operation) {
    const int flags = operation->flags;
    if ((flags & ~plain_flags) != O_RDONLY) {
        return Attempt::blocked;
    }
    operation->engine->slice_credit -= cost_of_opening;
    std::int64_t size = 0;
    OwnedDescriptor file(open_regular(operation, flags, size));
    if (file.get() < 0) {
        operation->error = file.get() == -EAGAIN ? 0 : -file.get();
        return operation->error == 0 ? Attempt::blocked : Attempt::done;
    }
    if (::fcntl(file.get(), F_SETFL, flags & O_NOATIME) != 0) {
        return Attempt::blocked;
    }
    operation->result = file.release();
    return Attempt::done;
}

void prepare_open(FileOperationObject* operation) {
    io::FileOperation& request = operation->request;
    request.to_open(PyBytes_AS_STRING(operation->path), operation->flags, operation->mode);
    request.may_block_indefinitely = operation->may_block_indefinitely;
}

PyObject* value_of_open(FileOperationObject* operation) {
    return PyLong_FromLongLong(operation->result);
}

void discard_open(FileOperationObject* operation) {
    ::close(static_cast<int>(operation->result));
}

// ---- whole files
// ----------------------------------------------------------------------------------

/// Resizes the buffer to `size` bytes and keeps what was read. False with an exception set.
bool make_room(FileOperationObject* operation, std::int64_t size) noexcept {
    if (operation->target == nullptr) {
        operation->target = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size));
    } else {
        _PyBytes_Resize(&operation->target, static_cast<Py_ssize_t>(size));
    }
    return operation->target != nullptr;
}

Attempt read_file_from_cache(FileOperationObject* operation, int fd, std::int64_t size) noexcept {
    // With room for one byte more than the file has, a short read shows its end.
    if (!make_room(operation, size + 1)) {
        return Attempt::failed;
    }
    operation->memory = PyBytes_AS_STRING(operation->target);
    const iovec part{.iov_base = operation->memory, .iov_len = static_cast<std::size_t>(size + 1)};
    const ssize_t count =
        copy_from_cache(size, [&] { return ::preadv2(fd, &part, 1, 0, RWF_NOWAIT); });
    if (count != size) {
        Py_CLEAR(operation->target);
        return Attempt::blocked;
    }
    operation->done = size;
    return Attempt::done;
}

Attempt attempt_read_file(FileOperationObject* operation) {
    operation->engine->slice_credit -= cost_of_opening;
    std::int64_t size = 0;
    const OwnedDescriptor file(open_regular(operation, O_RDONLY, size));
    if (file.get() < 0) {
        operation->error = file.get() == -EAGAIN ? 0 : -file.get();
        return operation->error == 0 ? Attempt::blocked : Attempt::done;
    }
    operation->size = size;
    if (size > max_cached_file) {
        return Attempt::blocked;
    }
    operation->engine->slice_credit -= size;
    return read_file_from_cache(operation, file.get(), size);
}

void* grow_bytes(io::FileOperation& request, std::size_t capacity) {
    FileOperationObject* operation = FileOperationObject::of(request);
    if (!make_room(operation, static_cast<std::int64_t>(capacity))) {
        PyErr_Clear();
        return nullptr;
    }
    return PyBytes_AS_STRING(operation->target);
}

void prepare_read_file(FileOperationObject* operation) {
    const std::int64_t capacity = operation->size > 0 ? operation->size + 1 : first_guess;
    if (!make_room(operation, capacity)) {
        PyErr_Clear();
        throw std::bad_alloc();
    }
    operation->request.to_read_file(PyBytes_AS_STRING(operation->path),
                                    PyBytes_AS_STRING(operation->target),
                                    static_cast<std::size_t>(capacity), &grow_bytes);
    operation->request.may_block_indefinitely = operation->may_block_indefinitely;
}

PyObject* value_of_read_file(FileOperationObject* operation) {
    if (_PyBytes_Resize(&operation->target, static_cast<Py_ssize_t>(operation->done)) != 0) {
        return nullptr;
    }
    return std::exchange(operation->target, nullptr);
}

} // namespace

const FileCall open_call = {
    .name = "open",
    .attempt = &attempt_open,
    .prepare = &prepare_open,
    .value = &value_of_open,
    .discard = &discard_open,
    .may_never_end = true,
};

const FileCall read_file_call = {
    .name = "read_file",
    .attempt = &attempt_read_file,
    .prepare = &prepare_read_file,
    .value = &value_of_read_file,
    .may_never_end = true,
};

} // namespace penstock::python
