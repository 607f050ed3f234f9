#pragma once

#include <cstdint>

#include <penstock/detail/pollable.hpp>

namespace penstock::detail {

/// sendfile(2) until everything is sent, or the file ends.
class SendFileOperation final : public SystemCallOperation<SendFileOperation, std::uint64_t> {
public:
    SendFileOperation(Pollable* pollable, int file, std::uint64_t offset,
                      std::uint64_t length) noexcept
        : SystemCallOperation(pollable, Direction::writing), file_(file), offset_(offset),
          left_(length) {}

    bool attempt() noexcept;

    [[nodiscard]] std::uint64_t result() const noexcept { return sent_; }

private:
    int file_;
    std::uint64_t offset_;
    std::uint64_t left_;
    std::uint64_t sent_ = 0;
};

} // namespace penstock::detail
