#include <penstock/detail/server/accept_loop.hpp>

#include <stdexcept>

#include <penstock/detail/task/deadline.hpp>
#include <penstock/io/accept_error.hpp>
#include <penstock/task/timeout.hpp>

namespace penstock::detail {

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds report_interval = 1s;

bool lacks_resources(std::error_code error) noexcept {
    return (error.category() == std::system_category() ||
            error.category() == std::generic_category()) &&
           io::kind_of_accept_error(error.value()) == io::AcceptError::of_resources;
}

} // namespace

AcceptLoop::AcceptLoop(std::size_t places, std::chrono::nanoseconds safe, Reporter& reporter)
    : limit_(places), safe_(safe), reporter_(reporter), places_(places) {
    if (places == 0) {
        throw std::invalid_argument(
            "a server with a limit of 0 connections serves nobody: allow at least 1");
    }
}

bool AcceptLoop::may_accept_after(std::error_code error) noexcept {
    if (!lacks_resources(error)) {
        return false;
    }
    if (const io::MonotonicTime now = io::monotonic_now(); now >= may_report_at_) {
        may_report_at_ = deadline_after(report_interval, now);
        reporter_.cannot_accept(error);
    }
    (void)end_first_listed(); // its descriptor serves another client better
    return true;
}

Task<Result<AcceptLoop::Place>> AcceptLoop::wait_for_place() {
    if (safe_ == for_ever) {
        co_return co_await places_.acquire();
    }
    while (!end_first_listed()) {
        Result<Place> place = co_await timeout(retry_interval, places_.acquire());
        if (place || place.error() != std::errc::timed_out) {
            co_return place;
        }
    }
    // One for one: its end may take longer than the interval, as with the last words of TLS.
    co_return co_await places_.acquire();
}

/// Unless it is still safe.
bool AcceptLoop::end_first_listed() noexcept {
    Endable* const first = listed_.front();
    if (first == nullptr || deadline_after(safe_, first->listed_at_) > io::monotonic_now()) {
        return false;
    }
    unlist(*first);
    first->end();
    return true;
}

void AcceptLoop::stop(std::chrono::nanoseconds grace) noexcept {
    if (stopping_) {
        return;
    }
    stopping_ = true;
    grace_ = grace;
    stopped_.set();
    accepting_.cancel();
    for (io::IntrusiveList<Endable>* const list : {&listed_, &kept_}) {
        while (Endable* const first = list->front()) {
            unlist(*first);
            first->end();
        }
    }
}

} // namespace penstock::detail
