#include <penstock/task_context.hpp>

#include <cstdio>
#include <cstdlib>

#include <penstock/suspension.hpp>
#include <penstock/task.hpp>

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

void detail::report_consumed_task() noexcept {
    (void)std::fputs(
        "penstock: a task is awaited or started that was awaited, started or moved from "
        "before; a task runs once\n",
        stderr);
    std::abort();
}

} // namespace penstock
