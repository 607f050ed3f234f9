#include <penstock/net/stream_socket.hpp>

#include <algorithm>
#include <cerrno>
#include <span>

#include <sys/socket.h>

namespace penstock::net {

Result<std::size_t> StreamSocket::try_write(Bytes from) noexcept {
    constexpr auto writing = detail::Direction::writing;
    if (pollable_ == nullptr) {
        return failure(std::errc::bad_file_descriptor);
    }
    if (pollable_->is_awaited(writing)) {
        return failure(std::errc::device_or_resource_busy);
    }
    if (from.empty() || !pollable_->may_be_ready(writing)) {
        return 0;
    }
    const ssize_t sent =
        detail::SocketCalls::write(pollable_->descriptor(), std::span(&from, 1), 0);
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        return last_failure();
    }
    const auto count = static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
    if (count < from.size()) {
        pollable_->set_may_be_ready(writing, false);
    }
    return count;
}

void StreamSocket::limit_writes(const WriteLimit& limit) noexcept {
    if (pollable_ != nullptr) {
        pollable_->limit_writes(limit);
    }
}

void StreamSocket::watch_hang_up(detail::HangUpHook& hook, EventLoop& loop) noexcept {
    if (pollable_ != nullptr) {
        pollable_->watch_hang_up(hook, loop);
    }
}

void StreamSocket::forget_hang_up(const detail::HangUpHook& hook) noexcept {
    if (pollable_ != nullptr) {
        pollable_->forget_hang_up(hook);
    }
}

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
