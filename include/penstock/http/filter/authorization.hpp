#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>

namespace penstock::http {

/// Whether two secrets are equal. The duration depends only on their lengths, so that an attacker
/// learns nothing from how long a wrong guess takes (a timing attack).
[[nodiscard]] bool equal_secrets(std::string_view one, std::string_view other) noexcept;

/// A filter that asks for a user name and password (Basic, RFC 7617). Use it only over TLS: the
/// client sends both unencrypted.
///
///     http::BasicAuthorization("lab", [](std::string_view user, std::string_view password) {
///         return user == "reader" && http::equal_secrets(password, secret);
///     })
///
/// A request without a pair that `check` accepts gets 401.
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

/// A filter that asks for a token (Bearer, RFC 6750). A request without a token that `check`
/// accepts gets 401. Use it only over TLS.
class BearerAuthorization {
public:
    using Check = std::function<bool(std::string_view token)>;

    /// Throws as `BasicAuthorization`.
    BearerAuthorization(std::string_view realm, Check check);
    /// Accepts one token, which `equal_secrets` compares. If it is null or empty, as
    /// `std::getenv("TOKEN")` may be, no token is accepted.
    BearerAuthorization(std::string_view realm, const char* token);
    BearerAuthorization(std::string_view realm, std::string token);

    bool operator()(Request& request, Response& response) const;

private:
    std::string realm_;
    Check check_;
};

} // namespace penstock::http
