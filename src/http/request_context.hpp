#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace penstock::http::detail {

/// What a handler has asked of its request, made when it asks.
struct RequestContext {
    std::string id;
    std::optional<std::chrono::steady_clock::time_point> deadline;
    std::vector<std::function<void()>> on_close;
};

} // namespace penstock::http::detail
