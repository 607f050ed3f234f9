#include <penstock/bridge/wait_ready.hpp>

namespace penstock {

bool WaitReadyOperation::begin() {
    io::Poller& poller = context().loop().poller();
    if (poller.watch_of(descriptor_) != nullptr) {
        error_ = std::make_error_code(std::errc::device_or_resource_busy);
        return false;
    }
    error_ = poller.add(*this, descriptor_, interest_);
    if (error_ == std::errc::operation_not_permitted) { // a regular file
        error_.clear();
        events_ = interest_;
        return false;
    }
    return !error_;
}

void WaitReadyOperation::on_ready(io::Watch& watch, std::uint32_t events) {
    auto& self = static_cast<WaitReadyOperation&>(watch);
    self.context().loop().poller().remove(self);
    self.events_ = events;
    self.resume();
}

void WaitReadyOperation::cancel(OperationBase& base) noexcept {
    auto& self = static_cast<WaitReadyOperation&>(base);
    self.context().loop().poller().remove(self);
    self.error_ = std::make_error_code(std::errc::operation_canceled);
    self.resume_soon();
}

} // namespace penstock
