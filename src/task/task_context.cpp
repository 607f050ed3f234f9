#include <penstock/task/task_context.hpp>

#include <cstdio>
#include <cstdlib>

#include <penstock/task/operation_base.hpp>
#include <penstock/task/task.hpp>

namespace penstock {

void TaskContext::cancel() noexcept {
    if (cancelled_) {
        return;
    }
    cancelled_ = true;
    if (waiting_ != nullptr && waiting_->cancel_ != nullptr) {
        const OperationBase::Cancel function = waiting_->cancel_;
        waiting_->cancel_ = nullptr;
        function(*waiting_);
    }
}

void detail::report_consumed_task() noexcept {
    (void)std::fputs("penstock: a task was used after it was awaited, started or moved from; "
                     "a task runs once\n",
                     stderr);
    std::abort();
}

} // namespace penstock
