#pragma once

#include <system_error>

#include <penstock/http/status.hpp>

namespace penstock::http {

/// A category of errors that are the client's: a handler that returns one before it has begun the
/// response makes the server answer with its status, and nothing is reported. `FormError` and
/// `JsonError` have such categories, and a program may have its own.
class RefusalCategory : public std::error_category {
public:
    /// From 400 to 499.
    [[nodiscard]] virtual Status status_for(int value) const noexcept = 0;
};

} // namespace penstock::http
