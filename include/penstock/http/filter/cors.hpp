#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>

namespace penstock::http {

/// The settings of `Cors`.
struct CorsOptions {
    /// Origins whose scripts may read the responses: "https://app.example". A single "*" means all.
    std::vector<std::string> origins{};
    /// Methods that a preflight allows, beside GET, HEAD and POST, which need no permission.
    std::vector<std::string> methods{};
    std::vector<std::string> request_fields{};  ///< fields that a request may have
    std::vector<std::string> response_fields{}; ///< fields that scripts may read
    bool credentials = false;                   ///< cookies and Authorization are allowed
    std::chrono::seconds max_age{600};          ///< for how long a browser keeps the answer
};

/// A filter that lets scripts of other origins read the responses (CORS,
/// https://fetch.spec.whatwg.org), those to failures included. It answers preflights:
///
///     http::Server server({.gate = http::Cors({.origins = {"https://app.example"}})});
///
/// For a part of the routes, it is a filter of their chains. They need the method OPTIONS too, and
/// the server's own 404 and 405 cannot be read:
///
///     auto api = http::chain(http::Cors({.origins = {"https://app.example"}}), handler);
///     server.get("/api", api);
///     server.route(http::Method::options, "/api", api);
///
/// The response to a request of another origin lacks the fields that would let the script read it.
/// This does not protect the server: only browsers enforce these rules.
class Cors {
public:
    /// Throws `std::invalid_argument` without an origin, for "*" beside others, and for "*" with
    /// `credentials`, which browsers refuse.
    explicit Cors(CorsOptions options);

    bool operator()(Request& request, Response& response) const;

private:
    [[nodiscard]] bool allows(std::string_view origin) const noexcept;

    CorsOptions options_;
    bool any_origin_;
    std::string methods_;
    std::string request_fields_;
    std::string response_fields_;
    std::string max_age_;
};

} // namespace penstock::http
