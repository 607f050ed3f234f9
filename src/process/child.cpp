#include <penstock/process/child.hpp>

#include <csignal>

namespace penstock::process {

Result<std::optional<ExitStatus>> Child::try_wait() noexcept {
    if (!state_) {
        return failure(std::errc::bad_file_descriptor);
    }
    if (const std::error_code error = state_->poll()) {
        return failure(error);
    }
    return state_->status;
}

Result<> Child::signal(int number) noexcept {
    if (!state_) {
        return failure(std::errc::bad_file_descriptor);
    }
    return state_->send_signal(number);
}

Result<> Child::kill() noexcept {
    return signal(SIGKILL);
}

} // namespace penstock::process
