#pragma once

#include <chrono>
#include <system_error>

#include <penstock/detail/task/deadline.hpp>
#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>
#include <penstock/task/timeout.hpp>

namespace penstock::http {

/// A filter that cancels what is behind it after a time, and answers 503 then. If the response has
/// begun, its connection is reset, so that no client takes a part for the whole. What is behind it
/// knows the time by `Request::deadline`.
///
/// The handler ends when it reacts to its cancellation: one that computes without a wait cannot be
/// stopped. A handler that answers in spite of the cancellation is heard.
class TimeLimit {
public:
    explicit TimeLimit(std::chrono::nanoseconds limit) noexcept : limit_(limit) {}

    template <typename Next>
    Task<Result<>> operator()(Request& request, Response& response, Next next) {
        const auto deadline = std::chrono::steady_clock::time_point(
            std::chrono::nanoseconds(penstock::detail::deadline_after(limit_)));
        request.tell_deadline(deadline);
        const Result<> outcome = co_await timeout_at(deadline, next(request, response));
        if (!outcome && outcome.error() == std::errc::timed_out && !response.started()) {
            response.status(Status::service_unavailable);
            response.body("");
            co_return Result<>();
        }
        co_return outcome;
    }

private:
    std::chrono::nanoseconds limit_;
};

} // namespace penstock::http
