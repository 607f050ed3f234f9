#include <penstock/detail/task/unwrap_awaiter.hpp>

#include <exception>
#include <optional>

namespace penstock::detail {

namespace {

struct UnwrappedError {
    std::error_code error;
};

} // namespace

void end_task_with(std::error_code error) {
    throw UnwrappedError{error};
}

std::optional<std::error_code> PromiseBase::take_unwrapped_error() noexcept {
    try {
        throw;
    } catch (const UnwrappedError& unwrapped) {
        return unwrapped.error;
    } catch (...) {
        exception_ = std::current_exception();
        return std::nullopt;
    }
}

} // namespace penstock::detail
