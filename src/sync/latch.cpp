#include <penstock/sync/latch.hpp>

#include <algorithm>

namespace penstock::sync {

void Latch::count_down(std::size_t by) noexcept {
    detail::Waiter::WakeList wake_list;
    const std::lock_guard guard(lock_);
    count_ -= std::min(by, count_);
    if (count_ == 0) {
        wake_list.add_all(waiting_);
    }
}

std::size_t Latch::count() const noexcept {
    const std::lock_guard guard(lock_);
    return count_;
}

} // namespace penstock::sync
