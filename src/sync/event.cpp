#include <penstock/sync/event.hpp>

namespace penstock::sync {

void Event::set() noexcept {
    detail::Waiter::WakeList wake_list;
    const std::lock_guard guard(lock_);
    set_ = true;
    wake_list.add_all(waiting_);
}

void Event::reset() noexcept {
    const std::lock_guard guard(lock_);
    set_ = false;
}

bool Event::is_set() const noexcept {
    const std::lock_guard guard(lock_);
    return set_;
}

} // namespace penstock::sync
