#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>

namespace penstock::http {

/// Whether two secrets are equal. Its time depends on their lengths only, so that a stranger learns
/// nothing of a secret from how long a wrong guess takes.
[[nodiscard]] bool equal_secrets(std::string_view one, std::string_view other) noexcept;

/// A filter for user and password (Basic, RFC 7617). Only behind TLS: both are sent as they are.
///
///     http::BasicAuthorization("lab", [](std::string_view user, std::string_view password) {
///         return user == "reader" && http::equal_secrets(password, secret);
///     })
///
/// Without a good pair the request is answered with 401.
class BasicAuthorization {
public:
    using Check = std::function<bool(std::string_view user, std::string_view password)>;

    /// `realm` is what a browser shows. Throws `std::invalid_argument` if it has a quote, a
    /// backslash or a control character.
    BasicAuthorization(std::string_view realm, Check check);

    bool operator()(Request& request, Response& response) const;

private:
    std::string challenge_;
    Check check_;
};

/// A filter for tokens (Bearer, RFC 6750). Without a good one the request is answered with 401.
class BearerAuthorization {
public:
    using Check = std::function<bool(std::string_view token)>;

    /// Throws as `BasicAuthorization`.
    BearerAuthorization(std::string_view realm, Check check);

    bool operator()(Request& request, Response& response) const;

private:
    std::string realm_;
    Check check_;
};

} // namespace penstock::http
