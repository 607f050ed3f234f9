#pragma once

#include <cstdint>
#include <utility>

#include <penstock/detail/io/pollable.hpp>
#include <penstock/detail/io/shared_descriptor.hpp>

namespace penstock::detail {

/// sendfile(2) until everything is sent or the file ends.
class SendFileOperation final : public SystemCallOperation<SendFileOperation, std::uint64_t> {
public:
    SendFileOperation(Pollable* pollable, int file, std::uint64_t offset,
                      std::uint64_t length) noexcept
        : SystemCallOperation(pollable, Direction::writing), file_(file), offset_(offset),
          left_(length) {}

    /// Keeps the file open until the operation has ended.
    SendFileOperation(Pollable* pollable, SharedDescriptor file, std::uint64_t offset,
                      std::uint64_t length) noexcept
        : SystemCallOperation(pollable, Direction::writing), owned_file_(std::move(file)),
          file_(owned_file_.get()), offset_(offset), left_(length) {}

    bool attempt() noexcept;

    [[nodiscard]] std::uint64_t result() const noexcept { return sent_; }

private:
    SharedDescriptor owned_file_;
    int file_;
    std::uint64_t offset_;
    std::uint64_t left_;
    std::uint64_t sent_ = 0;
};

} // namespace penstock::detail
