#include <penstock/net/stream_socket.hpp>

#include <algorithm>
#include <cerrno>
#include <span>

#include <sys/socket.h>

namespace penstock::net {

Result<std::size_t> StreamSocket::try_write(Bytes from) noexcept {
    return try_write(std::span(&from, 1));
}

Result<std::size_t> StreamSocket::try_write(std::span<const Bytes> parts) noexcept {
    constexpr auto writing = detail::Direction::writing;
    if (pollable_ == nullptr) {
        return failure(std::errc::bad_file_descriptor);
    }
    if (pollable_->is_awaited(writing)) {
        return failure(std::errc::device_or_resource_busy);
    }
    std::size_t size = 0;
    for (const Bytes& part : parts) {
        size += part.size();
    }
    if (size == 0 || !pollable_->may_be_ready(writing)) {
        return 0;
    }
    const ssize_t sent = detail::SocketCalls::write(pollable_->descriptor(), parts, 0);
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        return last_failure();
    }
    const auto count = static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
    if (count < size) {
        pollable_->set_may_be_ready(writing, false);
    }
    return count;
}

Result<Chunk> StreamSocket::try_receive() noexcept {
    constexpr auto reading = detail::Direction::reading;
    if (pollable_ == nullptr) {
        return failure(std::errc::bad_file_descriptor);
    }
    if (pollable_->is_awaited(reading)) {
        return failure(std::errc::device_or_resource_busy);
    }
    Chunk chunk;
    const MutableBytes buffer = chunk.borrow();
    if (buffer.empty()) {
        return failure(std::errc::not_enough_memory);
    }
    const ssize_t count = detail::SocketCalls::read(pollable_->descriptor(), buffer);
    if (count < 0) {
        return last_failure();
    }
    chunk.resize(static_cast<std::size_t>(count));
    if (chunk.size() < Chunk::capacity) {
        pollable_->set_may_be_ready(reading, false);
    }
    return chunk;
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

Result<> StreamSocket::watch_input(detail::InputHook& hook, EventLoop& loop) {
    if (pollable_ == nullptr) {
        return failure(std::errc::bad_file_descriptor);
    }
    if (const detail::LazyErrorCode error = pollable_->watch_input(hook, loop)) {
        return failure(error.code());
    }
    return {};
}

void StreamSocket::forget_input(const detail::InputHook& hook) noexcept {
    if (pollable_ != nullptr) {
        pollable_->forget_input(hook);
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
