#include <penstock/sync/mutex.hpp>

namespace penstock::sync {

std::optional<Mutex::Guard> Mutex::try_lock() noexcept {
    const std::lock_guard guard(lock_);
    return take() ? std::optional(Guard(*this)) : std::nullopt;
}

bool Mutex::locked() const noexcept {
    const std::lock_guard guard(lock_);
    return locked_;
}

// The mutex stays locked while it is handed over, so nobody can overtake.
void Mutex::hand_off() noexcept {
    detail::Waiter::WakeList wake_list;
    const std::lock_guard guard(lock_);
    if (detail::Waiter* next = detail::Waiter::take_first(waiting_)) {
        wake_list.add(*next);
    } else {
        locked_ = false;
    }
}

} // namespace penstock::sync
