#include <penstock/http/metrics.hpp>

#include <algorithm>
#include <charconv>

namespace penstock::http {

namespace {

/// The shortest decimal that is this number, with a point: 10.0.
std::string number(double value) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    std::string text(digits.data(), end);
    if (text.find_first_of(".en") == std::string::npos) {
        text += ".0";
    }
    return text;
}

std::string escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
        if (c == '\\' || c == '"') {
            result += '\\';
        }
        if (c == '\n') {
            result += "\\n";
        } else {
            result += c;
        }
    }
    return result;
}

void begin_family(std::string& page, std::string_view name, std::string_view kind,
                  std::string_view help) {
    page.append("# HELP penstock_").append(name).append(" ").append(help).append("\n");
    page.append("# TYPE penstock_").append(name).append(" ").append(kind).append("\n");
}

void append_sample(std::string& page, std::string_view name, std::string_view labels,
                   std::string_view value) {
    page.append("penstock_").append(name);
    if (!labels.empty()) {
        page.append("{").append(labels).append("}");
    }
    page.append(" ").append(value).append("\n");
}

std::uint64_t get(const std::atomic<std::uint64_t>& counter) noexcept {
    return counter.load(std::memory_order_relaxed);
}

} // namespace

void Metrics::Route::count(int status, std::chrono::nanoseconds duration) noexcept {
    const auto place = static_cast<std::size_t>(std::clamp<int>(status, 0, statuses - 1));
    statuses_[place].fetch_add(1, std::memory_order_relaxed);
    const double seconds = std::chrono::duration<double>(duration).count();
    const auto bucket =
        static_cast<std::size_t>(std::ranges::lower_bound(bounds, seconds) - bounds.begin());
    durations_[bucket].fetch_add(1, std::memory_order_relaxed);
    nanoseconds_.fetch_add(static_cast<std::uint64_t>(duration.count()), std::memory_order_relaxed);
}

Metrics::Route& Metrics::route(std::string_view method, std::string_view pattern) {
    const std::lock_guard guard(lock_);
    const auto found = std::ranges::find_if(routes_, [&](const Route& route) {
        return route.method_ == method && route.pattern_ == pattern;
    });
    return found != routes_.end() ? *found : routes_.emplace_back(method, pattern);
}

std::string Metrics::text() const {
    std::string requests;
    std::string durations;
    const std::lock_guard guard(lock_);
    for (const Route& route : routes_) {
        const std::string labels =
            "method=\"" + escaped(route.method_) + "\",route=\"" + escaped(route.pattern_) + "\"";
        for (std::size_t status = 0; status < Route::statuses; ++status) {
            if (const std::uint64_t count = get(route.statuses_[status])) {
                std::string status_labels = labels;
                status_labels.append(",status=\"").append(std::to_string(status)).append("\"");
                append_sample(requests, "requests_total", status_labels, std::to_string(count));
            }
        }
        std::uint64_t total = 0;
        for (std::size_t bucket = 0; bucket <= bounds.size(); ++bucket) {
            total += get(route.durations_[bucket]);
            std::string bucket_labels = labels;
            bucket_labels.append(",le=\"")
                .append(bucket < bounds.size() ? number(bounds[bucket]) : "+Inf")
                .append("\"");
            append_sample(durations, "request_duration_seconds_bucket", bucket_labels,
                          std::to_string(total));
        }
        append_sample(durations, "request_duration_seconds_sum", labels,
                      number(static_cast<double>(get(route.nanoseconds_)) / 1e9));
        append_sample(durations, "request_duration_seconds_count", labels, std::to_string(total));
    }
    std::string page;
    if (!requests.empty()) {
        begin_family(page, "requests_total", "counter", "Responses by their status.");
        page += requests;
    }
    if (!durations.empty()) {
        begin_family(page, "request_duration_seconds", "histogram",
                     "Time from a request's head to its response's end.");
        page += durations;
    }
    begin_family(page, "requests_in_progress", "gauge", "Requests whose response is not complete.");
    append_sample(page, "requests_in_progress", {},
                  std::to_string(in_progress_.load(std::memory_order_relaxed)));
    begin_family(page, "connections", "gauge", "Open connections.");
    append_sample(page, "connections", {},
                  std::to_string(connections_.load(std::memory_order_relaxed)));
    return page;
}

} // namespace penstock::http
