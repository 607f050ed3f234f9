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

// No permit is available while somebody waits, so nobody can overtake.
void Semaphore::release(std::size_t permits) noexcept {
    detail::Waiter::WakeList wake_list;
    const std::lock_guard guard(lock_);
    for (; permits > 0; --permits) {
        detail::Waiter* next = detail::Waiter::take_first(waiting_);
        if (next == nullptr) {
            break;
        }
        wake_list.add(*next);
    }
    available_ += permits;
}

} // namespace penstock::sync
