#include <penstock/task/canceller.hpp>

namespace penstock {

void Canceller::cancel() noexcept {
    cancelled_ = true;
    for (Cancellable* running = running_.front(); running != nullptr;
         running = io::IntrusiveList<Cancellable>::after(*running)) {
        running->cancel_children();
    }
}

} // namespace penstock
