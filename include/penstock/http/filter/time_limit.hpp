#pragma once

#include <chrono>
#include <exception>
#include <system_error>

#include <penstock/detail/task/deadline.hpp>
#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>
#include <penstock/task/timeout.hpp>

namespace penstock::http {

namespace detail {

/// Whether a handler has thrown because it was cancelled.
[[nodiscard]] bool is_cancellation(const std::exception_ptr& thrown) noexcept;

} // namespace detail

/// A filter that cancels the parts of the chain behind it after a time, and answers 503
/// (`Response::refuse`). If the response has begun, the connection is reset instead, so that no
/// client takes a part for the whole. `Request::deadline` tells the parts behind it when that will
/// be.
///
/// A handler ends at its next `co_await`: one that computes without awaiting cannot be stopped. If
/// a handler answers in spite of the cancellation, its response is sent. An error that it returns
/// before the time has passed is its own, also `timed_out`.
class TimeLimit {
public:
    explicit TimeLimit(std::chrono::nanoseconds limit) noexcept : limit_(limit) {}

    template <typename Next>
    Task<Result<>> operator()(Request& request, Response& response, Next next) {
        const io::MonotonicTime deadline = penstock::detail::deadline_after(limit_);
        request.tell_deadline(
            std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline)));
        penstock::detail::TimeoutOperation<Result<>> running(deadline, next(request, response));
        co_await running;
        Result<> outcome;
        try {
            outcome = running.child().take();
        } catch (...) { // a handler that returns no result
            if (!running.expired() || !detail::is_cancellation(std::current_exception())) {
                throw;
            }
            outcome = failure(std::errc::operation_canceled);
        }
        if (outcome || !running.expired()) {
            co_return outcome;
        }
        if (response.started()) {
            co_return failure(std::errc::timed_out);
        }
        response.refuse(Status::service_unavailable);
        co_return Result<>();
    }

private:
    std::chrono::nanoseconds limit_;
};

} // namespace penstock::http
