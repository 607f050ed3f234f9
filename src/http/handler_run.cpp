#include "http/handler_run.hpp"

#include <new>

#include <penstock/detail/task/deadline.hpp>
#include <penstock/io/owner_of.hpp>

namespace penstock::http::detail {

void HandlerRun::ended(JoinBase& join, penstock::detail::ChildBase& /*child*/) noexcept {
    auto& self = static_cast<HandlerRun&>(join);
    if (self.transport_ != nullptr) {
        self.transport_->forget_hang_up(self);
    }
    self.context().loop().timers().cancel(self);
}

void HandlerRun::has_read() noexcept {
    if (watches_) {
        context().loop().timers().cancel(*this);
        watch();
    }
}

void HandlerRun::hung_up(HangUpHook& hook, bool reset) noexcept {
    auto& self = static_cast<HandlerRun&>(hook);
    if (reset) {
        self.gone();
    } else if (self.half_closed_.count() > 0 && !self.scheduled()) {
        try {
            self.context().loop().timers().add(self,
                                               penstock::detail::deadline_after(self.half_closed_));
        } catch (const std::bad_alloc&) {
            self.gone(); // earlier than it should, for want of memory
        }
    }
}

void HandlerRun::waited(io::Work& work) noexcept {
    static_cast<HandlerRun&>(io::owner_of<&io::Timer::work>(work)).gone();
}

void HandlerRun::gone() noexcept {
    request_.tell_client_gone();
    if (when_client_goes_ == WhenClientGoes::cancel) {
        cancel_children();
    }
}

} // namespace penstock::http::detail
