#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <span>

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <penstock/detail/io/pollable.hpp>
#include <penstock/detail/io/scatter_operations.hpp>
#include <penstock/errors.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/stream/chunk.hpp>

namespace penstock::detail {

/// The maximum number of parts in one system call.
inline constexpr std::size_t max_parts = 64;

/// Fills `window` with the first parts, the first one from `offset` on. Returns how many.
[[nodiscard]] std::size_t fill_iovecs(std::span<const Bytes> parts, std::size_t offset,
                                      std::span<iovec, max_parts> window) noexcept;

/// The system calls of sockets: recv(2) or readv(2), send(2) or sendmsg(2). `write` takes at least
/// one part and sends the first one from `offset` on. A closed connection is an error and raises no
/// SIGPIPE. Calls are repeated while signals interrupt them.
struct SocketCalls {
    static ssize_t read(int fd, MutableBytes into) noexcept {
        return uninterrupted([&] { return ::recv(fd, into.data(), into.size(), 0); });
    }

    static ssize_t read(int fd, std::span<const iovec> parts) noexcept {
        return read_parts(fd, parts);
    }

    static ssize_t write(int fd, std::span<const Bytes> parts, std::size_t offset) noexcept {
        if (parts.size() > 1) {
            return send_parts(fd, parts, offset);
        }
        const Bytes& part = parts.front();
        return uninterrupted(
            [&] { return ::send(fd, part.data() + offset, part.size() - offset, MSG_NOSIGNAL); });
    }

private:
    static ssize_t send_parts(int fd, std::span<const Bytes> parts, std::size_t offset) noexcept;
};

template <typename Calls>
class ReadOperation final : public SystemCallOperation<ReadOperation<Calls>, std::size_t> {
public:
    ReadOperation(Pollable* pollable, MutableBytes into) noexcept
        : SystemCallOperation<ReadOperation, std::size_t>(pollable, Direction::reading),
          into_(into) {}

    [[nodiscard]] bool await_ready() noexcept { return this->try_now() || into_.empty(); }

    bool attempt() noexcept {
        count_ = Calls::read(this->fd(), into_);
        if (count_ < 0) {
            return this->fail_unless_would_block();
        }
        if (static_cast<std::size_t>(count_) < into_.size()) {
            this->mark_not_ready();
        }
        return true;
    }

    [[nodiscard]] std::size_t result() const noexcept { return static_cast<std::size_t>(count_); }

private:
    MutableBytes into_;
    ssize_t count_ = 0;
};

template <typename Calls>
class ReceiveOperation : public SystemCallOperation<ReceiveOperation<Calls>, Chunk> {
public:
    explicit ReceiveOperation(Pollable* pollable) noexcept
        : SystemCallOperation<ReceiveOperation, Chunk>(pollable, Direction::reading) {}

    bool attempt() noexcept {
        const MutableBytes buffer = chunk_.borrow();
        if (buffer.empty()) {
            errno = ENOMEM;
            return this->fail();
        }
        const ssize_t count = Calls::read(this->fd(), buffer);
        chunk_.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
        if (count < 0) {
            return this->fail_unless_would_block();
        }
        if (chunk_.size() < Chunk::capacity) {
            this->mark_not_ready();
        }
        return true;
    }

    [[nodiscard]] Chunk result() noexcept { return std::move(chunk_); }

private:
    Chunk chunk_;
};

template <typename Calls>
class ReadExactlyOperation final : public SystemCallOperation<ReadExactlyOperation<Calls>, void> {
public:
    ReadExactlyOperation(Pollable* pollable, MutableBytes into) noexcept
        : SystemCallOperation<ReadExactlyOperation, void>(pollable, Direction::reading),
          into_(into) {}

    [[nodiscard]] bool await_ready() noexcept { return this->try_now() || into_.empty(); }

    // Bounded, because a fast sender must not monopolise the loop.
    bool attempt() noexcept {
        for (int calls = 0; calls < 16; ++calls) {
            const std::size_t missing = into_.size() - filled_;
            if (missing == 0) {
                return true;
            }
            const ssize_t count =
                Calls::read(this->fd(), MutableBytes(into_.data() + filled_, missing));
            if (count < 0) {
                return this->fail_unless_would_block();
            }
            if (count == 0) {
                this->error_ = make_error_code(Error::end_of_stream);
                return true;
            }
            filled_ += static_cast<std::size_t>(count);
            if (static_cast<std::size_t>(count) < missing) {
                this->mark_not_ready();
                return false;
            }
        }
        return filled_ == into_.size();
    }

private:
    MutableBytes into_;
    std::size_t filled_ = 0;
};

template <typename Calls>
class WriteOperation : public SystemCallOperation<WriteOperation<Calls>, std::size_t> {
public:
    WriteOperation(Pollable* pollable, Bytes from) noexcept
        : SystemCallOperation<WriteOperation, std::size_t>(pollable, Direction::writing),
          from_(from) {}

    bool attempt() noexcept {
        count_ = Calls::write(this->fd(), std::span(&from_, 1), 0);
        return count_ >= 0 || this->fail_unless_would_block();
    }

    [[nodiscard]] std::size_t result() const noexcept { return static_cast<std::size_t>(count_); }

private:
    Bytes from_;
    ssize_t count_ = 0;
};

/// `Parts` is an array of `Bytes`, or a span of them.
template <typename Calls, typename Parts>
class WriteAllOperation : public SystemCallOperation<WriteAllOperation<Calls, Parts>, void> {
public:
    WriteAllOperation(Pollable* pollable, const Parts& parts) noexcept
        : SystemCallOperation<WriteAllOperation, void>(pollable, Direction::writing),
          parts_(parts) {}

    // After a short write the socket buffer is full, so the next call waits for readiness.
    bool attempt() noexcept {
        const std::span<const Bytes> parts(parts_);
        for (;;) {
            while (first_ < parts.size() && offset_ == parts[first_].size()) {
                ++first_;
                offset_ = 0;
            }
            if (first_ == parts.size()) {
                return true;
            }
            const ssize_t count = Calls::write(this->fd(), parts.subspan(first_), offset_);
            if (count < 0) {
                return this->fail_unless_would_block();
            }
            const bool full = advance(parts, static_cast<std::size_t>(count));
            if (full) {
                return false;
            }
        }
    }

private:
    // Returns whether the call took less than it was offered.
    bool advance(std::span<const Bytes> parts, std::size_t count) noexcept {
        const std::size_t end = std::min(parts.size(), first_ + max_parts);
        while (first_ < end && count >= parts[first_].size() - offset_) {
            count -= parts[first_].size() - offset_;
            offset_ = 0;
            ++first_;
        }
        offset_ += count;
        return first_ < end;
    }

    Parts parts_;
    std::size_t first_ = 0;
    std::size_t offset_ = 0;
};

} // namespace penstock::detail
