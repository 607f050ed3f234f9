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

// It is never free while somebody waits, so nobody can come in between.
void Mutex::pass_on() noexcept {
    detail::Waiter::Awakened awakened;
    const std::lock_guard guard(lock_);
    if (detail::Waiter* next = detail::Waiter::take_first(waiting_)) {
        awakened.add(*next);
    } else {
        locked_ = false;
    }
}

} // namespace penstock::sync
