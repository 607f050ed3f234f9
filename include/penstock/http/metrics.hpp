#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>

namespace penstock::http {

/// Counts the requests of servers by their routes, for Prometheus:
///
///     auto metrics = std::make_shared<http::Metrics>();
///     http::Server server({.metrics = metrics});
///     server.get("/metrics", http::metrics_page(metrics));
///
/// Servers of several loops may share one object: the numbers are their sums.
///
/// Thread safety: any thread may call any member.
class Metrics {
public:
    /// The upper bounds of the histogram of durations, in seconds: those of `penstock serve`.
    static constexpr std::array<double, 13> bounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                   0.25,  0.5,    1.0,   2.5,  5.0,   10.0};

    /// The requests of one route. Made by `Metrics::route`.
    class Route {
    public:
        Route(std::string_view method, std::string_view pattern)
            : method_(method), pattern_(pattern) {}

        /// Counts a response and the time from the request's head to its end.
        void count(int status, std::chrono::nanoseconds duration) noexcept;

    private:
        friend class Metrics;
        static constexpr std::size_t statuses = 1000;

        std::string method_;
        std::string pattern_;
        std::array<std::atomic<std::uint64_t>, statuses> statuses_{};
        std::array<std::atomic<std::uint64_t>, bounds.size() + 1> durations_{};
        std::atomic<std::uint64_t> nanoseconds_{0};
    };

    Metrics() = default;
    Metrics(const Metrics&) = delete;
    Metrics& operator=(const Metrics&) = delete;

    /// The counters of a method and a pattern, which live as long as this object. Both are empty
    /// for requests without a route. Throws `std::bad_alloc`.
    [[nodiscard]] Route& route(std::string_view method, std::string_view pattern);

    /// For servers: these change the gauges of open connections and of requests in progress.
    void connection_opened() noexcept { connections_.fetch_add(1, std::memory_order_relaxed); }
    void connection_closed() noexcept { connections_.fetch_sub(1, std::memory_order_relaxed); }
    void request_begun() noexcept { in_progress_.fetch_add(1, std::memory_order_relaxed); }
    void request_ended() noexcept { in_progress_.fetch_sub(1, std::memory_order_relaxed); }

    /// The page, in Prometheus' text format 0.0.4: `penstock_requests_total` and
    /// `penstock_request_duration_seconds` with the labels method and route, which is the pattern,
    /// so that clients cannot make labels; `penstock_requests_in_progress`; and
    /// `penstock_connections`. Throws `std::bad_alloc`.
    [[nodiscard]] std::string text() const;

private:
    mutable std::mutex lock_; // of the list, not of the counters
    std::deque<Route> routes_;
    std::atomic<std::int64_t> connections_{0};
    std::atomic<std::int64_t> in_progress_{0};
};

/// A handler that answers with the page of the metrics.
[[nodiscard]] inline auto metrics_page(std::shared_ptr<const Metrics> metrics) {
    return [metrics = std::move(metrics)](Request&, Response& response) {
        response.header("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
        response.body(metrics->text());
    };
}

} // namespace penstock::http
