#include <penstock/net/unix_listener.hpp>

#include <cerrno>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include <penstock/owned_descriptor.hpp>

namespace penstock::net {

using penstock::detail::open_socket;
using penstock::detail::Pollable;

namespace {

/// Whether no process listens on an existing socket file.
bool is_stale(const UnixEndpoint& endpoint) noexcept {
    struct stat status{};
    if (::lstat(endpoint.name().c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) {
        return false;
    }
    const Result<int> fd = open_socket(AF_UNIX, SOCK_STREAM);
    const OwnedDescriptor probe(fd.value_or(-1));
    return probe && ::connect(probe.get(), endpoint.native(), endpoint.native_size()) != 0 &&
           errno == ECONNREFUSED;
}

Result<> bind(int fd, const UnixEndpoint& endpoint, const UnixListener::Options& options) {
    // The file gets the mode of the socket, less the umask (unix(7)).
    if (options.mode && ::fchmod(fd, *options.mode) != 0) {
        return last_failure();
    }
    if (::bind(fd, endpoint.native(), endpoint.native_size()) == 0) {
        return {};
    }
    const std::error_code refused(errno, std::system_category());
    if (refused != std::errc::address_in_use || !options.replace_stale || !endpoint.is_path() ||
        !is_stale(endpoint)) {
        return failure(refused);
    }
    if (::unlink(endpoint.name().c_str()) != 0 ||
        ::bind(fd, endpoint.native(), endpoint.native_size()) != 0) {
        return last_failure();
    }
    return {};
}

} // namespace

Result<UnixListener> UnixListener::listen(const UnixEndpoint& endpoint, const Options& options) {
    const Result<int> fd = open_socket(AF_UNIX, SOCK_STREAM);
    if (!fd) {
        return failure(fd.error());
    }
    std::unique_ptr<Pollable> socket = Pollable::adopt(*fd);
    if (const Result<> bound = bind(*fd, endpoint, options); !bound) {
        return failure(bound.error());
    }
    UnixListener listener(std::move(socket), endpoint);
    if (endpoint.is_path()) {
        struct stat status{};
        if (::lstat(endpoint.name().c_str(), &status) != 0) {
            return last_failure();
        }
        listener.bound_.device = status.st_dev;
        listener.bound_.inode = status.st_ino;
        listener.bound_.process = ::getpid();
        if (options.mode && ::chmod(endpoint.name().c_str(), *options.mode) != 0) {
            return last_failure();
        }
    }
    if (::listen(*fd, options.backlog) != 0) {
        return last_failure();
    }
    return listener;
}

void UnixListener::close() noexcept {
    if (pollable_ == nullptr) {
        return;
    }
    struct stat status{};
    if (bound_.inode != 0 && bound_.process == ::getpid() &&
        ::lstat(bound_.endpoint.name().c_str(), &status) == 0 && status.st_ino == bound_.inode &&
        status.st_dev == bound_.device) {
        ::unlink(bound_.endpoint.name().c_str());
    }
    DescriptorOwner::close();
    bound_.inode = 0;
}

} // namespace penstock::net
