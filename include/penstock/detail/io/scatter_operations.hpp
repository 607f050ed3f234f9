#pragma once

#include <array>
#include <cstddef>
#include <span>

#include <sys/types.h>
#include <sys/uio.h>

#include <penstock/detail/io/pollable.hpp>
#include <penstock/errors.hpp>
#include <penstock/stream/bytes.hpp>

namespace penstock::detail {

/// readv(2), repeated while signals interrupt it. Also for sockets.
[[nodiscard]] ssize_t read_parts(int fd, std::span<const iovec> parts) noexcept;

/// Several buffers to fill in order.
template <std::size_t Count> class PartsToFill {
public:
    explicit PartsToFill(const std::array<MutableBytes, Count>& parts) noexcept {
        for (std::size_t i = 0; i < Count; ++i) {
            parts_[i] = {.iov_base = parts[i].data(), .iov_len = parts[i].size()};
            missing_ += parts[i].size();
        }
    }

    [[nodiscard]] std::size_t missing() const noexcept { return missing_; }

    /// The parts that are not full.
    [[nodiscard]] std::span<const iovec> left() const noexcept {
        return std::span(parts_).subspan(first_);
    }

    void fill(std::size_t count) noexcept {
        missing_ -= count;
        while (first_ < Count && count >= parts_[first_].iov_len) {
            count -= parts_[first_].iov_len;
            ++first_;
        }
        if (count > 0) {
            parts_[first_].iov_base = static_cast<std::byte*>(parts_[first_].iov_base) + count;
            parts_[first_].iov_len -= count;
        }
    }

private:
    std::array<iovec, Count> parts_{};
    std::size_t first_ = 0;
    std::size_t missing_ = 0;
};

template <typename Calls, std::size_t Count>
class ReadPartsOperation final
    : public SystemCallOperation<ReadPartsOperation<Calls, Count>, std::size_t> {
public:
    ReadPartsOperation(Pollable* pollable, const std::array<MutableBytes, Count>& parts) noexcept
        : SystemCallOperation<ReadPartsOperation, std::size_t>(pollable, Direction::reading),
          parts_(parts) {}

    [[nodiscard]] bool await_ready() noexcept { return this->try_now() || parts_.missing() == 0; }

    bool attempt() noexcept {
        if (parts_.missing() == 0) { // an empty read is not the end of a stream
            return true;
        }
        count_ = Calls::read(this->fd(), parts_.left());
        if (count_ < 0) {
            return this->fail_unless_would_block();
        }
        if (static_cast<std::size_t>(count_) < parts_.missing()) {
            this->mark_not_ready();
        }
        return true;
    }

    [[nodiscard]] std::size_t result() const noexcept { return static_cast<std::size_t>(count_); }

private:
    PartsToFill<Count> parts_;
    ssize_t count_ = 0;
};

template <typename Calls, std::size_t Count>
class ReadPartsExactlyOperation final
    : public SystemCallOperation<ReadPartsExactlyOperation<Calls, Count>, void> {
public:
    ReadPartsExactlyOperation(Pollable* pollable,
                              const std::array<MutableBytes, Count>& parts) noexcept
        : SystemCallOperation<ReadPartsExactlyOperation, void>(pollable, Direction::reading),
          parts_(parts) {}

    [[nodiscard]] bool await_ready() noexcept { return this->try_now() || parts_.missing() == 0; }

    // One call for each readiness event, which takes everything that has arrived. A fast sender
    // must not monopolise the loop.
    bool attempt() noexcept {
        if (parts_.missing() == 0) {
            return true;
        }
        const ssize_t count = Calls::read(this->fd(), parts_.left());
        if (count < 0) {
            return this->fail_unless_would_block();
        }
        if (count == 0) {
            this->error_ = make_error_code(Error::end_of_stream);
            return true;
        }
        parts_.fill(static_cast<std::size_t>(count));
        if (parts_.missing() > 0) {
            this->mark_not_ready();
        }
        return parts_.missing() == 0;
    }

private:
    PartsToFill<Count> parts_;
};

} // namespace penstock::detail
