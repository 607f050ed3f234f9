#pragma once

#include <stdexcept>
#include <string_view>

#include <penstock/http/status.hpp>

namespace penstock::http {

/// An exception that is an answer. If a handler, a filter or `ServerOptions::gate` throws it before
/// the response has begun, the server answers with its status, and reports no failure:
///
///     throw http::StatusError(http::Status::not_found);
///     throw http::StatusError(http::Status::conflict, "the version is 7");
///
/// The answer is the one that `Response::refuse` makes, and its line is `what()`: "404 Not Found",
/// or "409 Conflict: the version is 7". A throw takes some microseconds. Where refusals are usual,
/// call `Response::refuse` instead.
class StatusError : public std::runtime_error {
public:
    /// Throws `std::invalid_argument` for a status that is not from 400 to 599.
    explicit StatusError(Status status, std::string_view reason = {});

    [[nodiscard]] Status status() const noexcept { return status_; }

private:
    Status status_;
};

} // namespace penstock::http
