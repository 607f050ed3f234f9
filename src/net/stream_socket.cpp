#include <penstock/net/stream_socket.hpp>

#include <sys/socket.h>

namespace penstock::net {

Result<> StreamSocket::shutdown() noexcept {
    if (pollable_ == nullptr) {
        return failure(std::errc::bad_file_descriptor);
    }
    if (::shutdown(pollable_->descriptor(), SHUT_WR) != 0) {
        return last_failure();
    }
    return {};
}

int StreamSocket::release() noexcept {
    const std::unique_ptr<detail::Pollable> pollable = std::move(pollable_);
    return pollable ? pollable->release() : -1;
}

} // namespace penstock::net
