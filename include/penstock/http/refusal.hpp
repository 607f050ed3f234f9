#pragma once

#include <system_error>

#include <penstock/http/status.hpp>

namespace penstock::http {

/// A category of errors for which the client is to blame. If a handler returns such an error before
/// it has begun the response, the server answers with the status of the error, and reports no
/// failure. `FormError` and `JsonError` have such categories, and a program may define its own.
class RefusalCategory : public std::error_category {
public:
    /// The status of an error, from 400 to 499.
    [[nodiscard]] virtual Status status_for(int value) const noexcept = 0;
};

} // namespace penstock::http
