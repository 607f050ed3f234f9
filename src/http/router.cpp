#include <penstock/http/detail/router.hpp>

#include <algorithm>
#include <stdexcept>

#include <penstock/codec/http/fields.hpp>
#include <penstock/codec/http/target.hpp>

namespace penstock::http::detail {

namespace {

/// Takes the segment after the slash with which `path` begins.
std::string_view take_segment(std::string_view& path) noexcept {
    path.remove_prefix(1);
    const std::string_view segment = path.substr(0, path.find('/'));
    path.remove_prefix(segment.size());
    return segment;
}

[[noreturn]] void refuse(std::string_view pattern, std::string_view reason) {
    throw std::invalid_argument("http::Server: the route '" + std::string(pattern) + "' " +
                                std::string(reason));
}

bool is_parameter(std::string_view segment) noexcept {
    return segment.size() > 1 && segment.front() == '{' && segment.back() == '}';
}

} // namespace

/// A depth-first search of the routes of a path, those of the most literal pattern first. It shows
/// the routes of each pattern to `visit`, until that returns true.
template <typename Visit> class Router::Search {
public:
    Search(Values& values, const Visit& visit) noexcept : values_(values), visit_(visit) {}

    bool descend(const Node& node, std::string_view path, std::size_t depth = 0) {
        if (path.empty()) {
            return visit_(node.routes);
        }
        std::string_view rest = path;
        const std::string_view segment = take_segment(rest);
        for (const std::unique_ptr<Node>& child : node.literals) {
            if (codec::http::decodes_to(segment, child->literal) && descend(*child, rest, depth)) {
                return true;
            }
        }
        if (depth == maximum_parameters) {
            return false;
        }
        if (node.parameter && !segment.empty()) {
            values_[depth] = segment;
            if (descend(*node.parameter, rest, depth + 1)) {
                return true;
            }
        }
        if (!node.rest.empty()) {
            values_[depth] = path.substr(1);
            return visit_(node.rest);
        }
        return false;
    }

private:
    Values& values_;
    const Visit& visit_;
};

Route& Router::add(std::string_view method, std::string_view pattern, std::string protocol,
                   Handler handler, const RouteOptions& options) {
    if (!codec::http::is_token(method)) {
        refuse(pattern, "needs a method that is a token");
    }
    if (!pattern.starts_with('/') || pattern.find_first_of("?#") != std::string_view::npos) {
        refuse(pattern, "must begin with a slash and be a path only");
    }
    Route route{.method = std::string(method),
                .protocol = std::move(protocol),
                .parameters = {},
                .handler = std::move(handler),
                .options = options,
                .metrics = nullptr};
    Node* node = &root_;
    std::vector<const Route*>* routes = nullptr;
    for (std::string_view path = pattern; !path.empty();) {
        std::string_view segment = take_segment(path);
        if (!is_parameter(segment)) {
            if (segment.find_first_of("{}") != std::string_view::npos) {
                refuse(pattern, "has a parameter that is only a part of a segment");
            }
            const auto found = std::ranges::find_if(
                node->literals, [&](const auto& child) { return child->literal == segment; });
            if (found != node->literals.end()) {
                node = found->get();
            } else {
                node = node->literals.emplace_back(std::make_unique<Node>()).get();
                node->literal = segment;
            }
            continue;
        }
        segment = segment.substr(1, segment.size() - 2);
        const bool takes_rest = segment.ends_with("...");
        segment.remove_suffix(takes_rest ? 3 : 0);
        if (segment.empty() ||
            std::ranges::find(route.parameters, segment) != route.parameters.end() ||
            route.parameters.size() == maximum_parameters) {
            refuse(pattern, "has a parameter without a name, one twice, or more than 16");
        }
        route.parameters.emplace_back(segment);
        if (takes_rest) {
            if (!path.empty()) {
                refuse(pattern, "continues after the parameter that takes the rest");
            }
            routes = &node->rest;
            break;
        }
        if (!node->parameter) {
            node->parameter = std::make_unique<Node>();
        }
        node = node->parameter.get();
    }
    if (routes == nullptr) {
        routes = &node->routes;
    }
    for (const Route* other : *routes) {
        if (other->method == route.method && other->protocol == route.protocol) {
            refuse(pattern, "was added before with this method");
        }
    }
    routes->reserve(routes->size() + 1);
    Route& added = routes_.emplace_back(std::move(route));
    routes->push_back(&added);
    return added;
}

void Router::find(std::string_view method, std::string_view path,
                  const std::function<bool(const Route&)>& accepts, Match& match) const {
    match.route = nullptr;
    match.path_known = false;
    const auto choose = [&](const std::vector<const Route*>& routes) {
        for (const Route* route : routes) {
            match.path_known = true;
            if (route->method == method && accepts(*route)) {
                match.route = route;
                return true;
            }
        }
        return false;
    };
    if (path.starts_with('/')) {
        Search(match.values, choose).descend(root_, path);
    }
}

// One search for all methods: with one for each route, an OPTIONS cost a server of a thousand
// routes a quarter of a millisecond.
std::string Router::allowed(std::string_view path) const {
    std::vector<std::string_view> methods;
    const auto note = [&methods](std::string_view method) {
        if (std::ranges::find(methods, method) == methods.end()) {
            methods.push_back(method);
        }
    };
    const auto note_all = [&](const std::vector<const Route*>& routes) {
        for (const Route* route : routes) {
            note(route->method);
            if (route->method == "GET") {
                note("HEAD");
            }
        }
        return false;
    };
    Values values;
    if (path.starts_with('/')) {
        Search(values, note_all).descend(root_, path);
    }
    note("OPTIONS");
    std::string list;
    for (const std::string_view method : methods) {
        list.append(list.empty() ? "" : ", ").append(method);
    }
    return list;
}

} // namespace penstock::http::detail
