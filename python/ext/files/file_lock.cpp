// Locks of open files: the wait for one, which a cancellation ends.

#include "files/file_calls.hpp"

#include <cerrno>

#include <fcntl.h>

namespace penstock::python {

namespace {

std::int64_t wait_for_lock(io::FileOperation& request) {
    const FileOperationObject* operation = FileOperationObject::of(request);
    struct flock whole_file = {};
    whole_file.l_type = static_cast<short>(operation->flags);
    whole_file.l_whence = SEEK_SET;
    // Not repeated after EINTR: the signal may be the one with which the engine cancels the wait.
    return ::fcntl(operation->fd, F_OFD_SETLKW, &whole_file) == 0 ? 0 : -errno;
}

void prepare_lock(FileOperationObject* operation) {
    operation->request.to_call(&wait_for_lock);
    operation->request.may_block_indefinitely = true;
}

} // namespace

const FileCall lock_call = {
    .name = "lock",
    .prepare = &prepare_lock,
    .may_never_end = true,
};

} // namespace penstock::python
