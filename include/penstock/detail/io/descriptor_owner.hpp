#pragma once

#include <memory>
#include <utility>

#include <penstock/detail/io/pollable.hpp>

namespace penstock::detail {

/// Owns a pollable descriptor. The base of streams, listeners and sockets.
///
/// Thread safety: it belongs to the loop on which a task first waited for it, and to that loop's
/// thread. Before that it may be passed to another thread.
class DescriptorOwner {
public:
    /// Closes the descriptor. Waiting operations get `operation_canceled`, later ones
    /// `bad_file_descriptor`. An operation that was created before and not awaited must not be
    /// awaited any more: it refers to the closed descriptor.
    void close() noexcept { pollable_.reset(); }

    [[nodiscard]] bool is_open() const noexcept { return pollable_ != nullptr; }

    /// The descriptor, still owned by this object. -1 if closed.
    [[nodiscard]] int native_handle() const noexcept {
        return pollable_ ? pollable_->descriptor() : -1;
    }

protected:
    DescriptorOwner() = default;
    explicit DescriptorOwner(std::unique_ptr<Pollable> pollable) noexcept
        : pollable_(std::move(pollable)) {}

    std::unique_ptr<Pollable> pollable_;
};

} // namespace penstock::detail
