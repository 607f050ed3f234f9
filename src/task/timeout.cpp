#include <penstock/task/timeout.hpp>

namespace penstock::detail {

void TimeoutJoin::stop(JoinBase& join, ChildBase& /*child*/) noexcept {
    auto& self = static_cast<TimeoutJoin&>(join);
    self.running_ = false;
    self.context().loop().timers().cancel(self);
}

void TimeoutJoin::expire(io::Work& work) {
    auto& self = static_cast<TimeoutJoin&>(io::owner_of<&io::Timer::work>(work));
    if (self.deadline_ > self.armed_for_) {
        self.start_timer();
        return;
    }
    // A task that was cancelled before has not timed out, however long its end takes.
    self.expired_ = !self.context().cancelled();
    self.cancel_children();
}

// A later deadline leaves the timer alone: it fires once too early and is set again. A program that
// moves the deadline with each message would otherwise change the timer queue each time.
void TimeoutJoin::move_deadline(io::MonotonicTime deadline) {
    deadline_ = deadline;
    if (running_ && !expired_ && deadline < armed_for_) {
        context().loop().timers().cancel(*this);
        start_timer();
    }
}

} // namespace penstock::detail
