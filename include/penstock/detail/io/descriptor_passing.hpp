#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <sys/types.h>

#include <penstock/detail/io/pollable.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/stream/bytes.hpp>

namespace penstock::detail {

/// SCM_MAX_FD of the kernel (unix(7)): the maximum number of descriptors in one message.
inline constexpr std::size_t max_descriptors = 253;

/// sendmsg(2) with SCM_RIGHTS, and recvmsg(2). They return -1 and `errno` on an error.
[[nodiscard]] ssize_t send_with_descriptors(int fd, Bytes from,
                                            std::span<const int> descriptors) noexcept;
[[nodiscard]] ssize_t receive_with_descriptors(int fd, MutableBytes into,
                                               std::vector<OwnedDescriptor>& descriptors) noexcept;

class SendWithDescriptorsOperation final
    : public SystemCallOperation<SendWithDescriptorsOperation, std::size_t> {
public:
    SendWithDescriptorsOperation(Pollable* pollable, Bytes from,
                                 std::span<const int> descriptors) noexcept
        : SystemCallOperation(pollable, Direction::writing), from_(from),
          descriptors_(descriptors) {
        if (from.empty() || descriptors.size() > max_descriptors) {
            error_ = std::make_error_code(std::errc::invalid_argument);
        }
    }

    bool attempt() noexcept {
        count_ = send_with_descriptors(fd(), from_, descriptors_);
        return count_ >= 0 || fail_unless_would_block();
    }

    [[nodiscard]] std::size_t result() const noexcept { return static_cast<std::size_t>(count_); }

private:
    Bytes from_;
    std::span<const int> descriptors_;
    ssize_t count_ = 0;
};

class ReceiveWithDescriptorsOperation final
    : public SystemCallOperation<ReceiveWithDescriptorsOperation, std::size_t> {
public:
    ReceiveWithDescriptorsOperation(Pollable* pollable, MutableBytes into,
                                    std::vector<OwnedDescriptor>& descriptors) noexcept
        : SystemCallOperation(pollable, Direction::reading), into_(into),
          descriptors_(&descriptors) {}

    // A short read does not mean that no more data is there: a message with descriptors ends a
    // read.
    bool attempt() noexcept {
        count_ = receive_with_descriptors(fd(), into_, *descriptors_);
        return count_ >= 0 || fail_unless_would_block();
    }

    [[nodiscard]] std::size_t result() const noexcept { return static_cast<std::size_t>(count_); }

private:
    MutableBytes into_;
    std::vector<OwnedDescriptor>* descriptors_;
    ssize_t count_ = 0;
};

} // namespace penstock::detail
