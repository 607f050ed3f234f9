#pragma once

#include <memory>

#include <penstock/detail/io/pollable.hpp>

namespace penstock::detail {

/// accept4(2). Returns a descriptor, or -1 and `errno`. Skips connections that ended before they
/// were accepted, as accept(2) advises.
[[nodiscard]] int accept_connection(int listener) noexcept;

template <typename Stream>
class AcceptOperation final : public SystemCallOperation<AcceptOperation<Stream>, Stream> {
public:
    explicit AcceptOperation(Pollable* listener) noexcept
        : SystemCallOperation<AcceptOperation, Stream>(listener, Direction::reading) {}

    bool attempt() noexcept {
        accepted_ = accept_connection(this->fd());
        return accepted_ >= 0 || this->fail_unless_would_block();
    }

    [[nodiscard]] Stream result() { return Stream(Pollable::adopt(accepted_)); }

private:
    int accepted_ = -1;
};

} // namespace penstock::detail
