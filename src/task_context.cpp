#include <penstock/task_context.hpp>

#include <penstock/suspension.hpp>

namespace penstock {

void TaskContext::cancel() noexcept {
    if (cancelled_) {
        return;
    }
    cancelled_ = true;
    if (waiting_ != nullptr && waiting_->cancel_ != nullptr) {
        const Suspension::Cancel function = waiting_->cancel_;
        waiting_->cancel_ = nullptr;
        function(*waiting_);
    }
}

} // namespace penstock
