#include <penstock/sync/semaphore.hpp>

namespace penstock::sync {

std::optional<Semaphore::Permit> Semaphore::try_acquire() noexcept {
    const std::lock_guard guard(lock_);
    return take() ? std::optional(Permit(*this)) : std::nullopt;
}

std::size_t Semaphore::available() const noexcept {
    const std::lock_guard guard(lock_);
    return available_;
}

// None is free while somebody waits, so nobody can come in between.
void Semaphore::release(std::size_t permits) noexcept {
    detail::Waiter::Awakened awakened;
    const std::lock_guard guard(lock_);
    for (; permits > 0; --permits) {
        detail::Waiter* next = detail::Waiter::take_first(waiting_);
        if (next == nullptr) {
            break;
        }
        awakened.add(*next);
    }
    available_ += permits;
}

} // namespace penstock::sync
