#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/http/metrics.hpp>
#include <penstock/http/server_options.hpp>
#include <penstock/result.hpp>
#include <penstock/task/task.hpp>

namespace penstock::http {

class Request;
class Response;
class Upgrade;

namespace detail {

/// What answers the requests of a route. One of the three is set.
struct Handler {
    std::function<Task<Result<>>(Request&, Response&)> task{};
    std::function<Result<>(Request&, Response&)> function{}; ///< answers without waiting
    std::function<Task<Result<>>(Upgrade&)> upgrade{};
};

struct Route {
    std::string method;
    std::string protocol; ///< of an upgrade
    std::vector<std::string> parameters;
    Handler handler;
    RouteOptions options;
    Metrics::Route* metrics = nullptr;
};

/// Finds the route of a method and a path. A path is matched segment by segment: a literal segment
/// is preferred to a parameter, and that to the rest of the path.
class Router {
public:
    /// Parameters of a pattern beyond this number are refused.
    static constexpr std::size_t maximum_parameters = 16;

    using Values = std::array<std::string_view, maximum_parameters>;

    struct Match {
        const Route* route = nullptr;
        Values values; ///< percent-encoded
        /// Without a route: the path has routes of other methods.
        bool path_known = false;
    };

    /// Throws `std::invalid_argument` for a pattern that is invalid, or that has a route with this
    /// method and protocol already.
    Route& add(std::string_view method, std::string_view pattern, std::string protocol,
               Handler handler, const RouteOptions& options);

    /// `accepts` chooses among the routes of the method: it looks at the protocol.
    void find(std::string_view method, std::string_view path,
              const std::function<bool(const Route&)>& accepts, Match& match) const;

    /// The methods of a path, for the Allow field: "GET, HEAD, POST". Those of the most literal
    /// pattern come first.
    [[nodiscard]] std::string allowed(std::string_view path) const;

private:
    struct Node {
        std::string literal;
        std::vector<std::unique_ptr<Node>> literals;
        std::unique_ptr<Node> parameter;
        std::vector<const Route*> routes;
        std::vector<const Route*> rest; ///< whose last parameter takes the rest of the path
    };
    template <typename Visit> class Search;

    Node root_;
    std::deque<Route> routes_; ///< never moved: a running handler may be a closure
};

} // namespace detail
} // namespace penstock::http
