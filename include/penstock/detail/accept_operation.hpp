#pragma once

#include <memory>

#include <penstock/detail/pollable.hpp>

namespace penstock::detail {

/// accept4(2): a descriptor, or -1 with `errno`. Connections that ended before they were accepted are
/// passed over, as accept(2) advises.
[[nodiscard]] int accept_connection(int listener) noexcept;

template <typename Stream>
class AcceptOperation final : public SystemCallOperation<AcceptOperation<Stream>, Stream> {
public:
    explicit AcceptOperation(Pollable* listener) noexcept
        : SystemCallOperation<AcceptOperation, Stream>(listener, Direction::reading) {}

    bool attempt() noexcept {
        accepted_ = accept_connection(this->fd());
        return accepted_ >= 0 || this->failed_for_good();
    }

    [[nodiscard]] Stream result() { return Stream(Pollable::adopt(accepted_)); }

private:
    int accepted_ = -1;
};

} // namespace penstock::detail
