#include <penstock/fs/open_options.hpp>

#include <fcntl.h>

namespace penstock::fs {

int OpenOptions::flags() const noexcept {
    int flags = write || append ? (read ? O_RDWR : O_WRONLY) : O_RDONLY;
    flags |= append ? O_APPEND : 0;
    flags |= create || create_new ? O_CREAT : 0;
    flags |= create_new ? O_EXCL : 0;
    flags |= truncate ? O_TRUNC : 0;
    flags |= direct ? O_DIRECT : 0;
    return flags | O_CLOEXEC;
}

} // namespace penstock::fs
