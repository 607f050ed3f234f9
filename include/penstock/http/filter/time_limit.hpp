#pragma once

#include <chrono>
#include <system_error>

#include <penstock/detail/task/deadline.hpp>
#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>
#include <penstock/task/timeout.hpp>

namespace penstock::http {

/// A filter that cancels the parts of the chain behind it after a time, and answers 503. If the
/// response has begun, the connection is reset instead, so that no client takes a part for the
/// whole. `Request::deadline` tells the parts behind it when that will be.
///
/// A handler ends at its next `co_await`: one that computes without awaiting cannot be stopped. If
/// a handler answers in spite of the cancellation, its response is sent.
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
