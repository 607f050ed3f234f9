#include <penstock/http/filter/time_limit.hpp>

#include "http/server_exchange.hpp"

namespace penstock::http::detail {

bool is_cancellation(const std::exception_ptr& thrown) noexcept {
    return ServerExchange::error_of(thrown) == std::errc::operation_canceled;
}

} // namespace penstock::http::detail
