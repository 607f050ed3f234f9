#include <penstock/http/filter/authorization.hpp>

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <utility>

#include "codec/base64.hpp"
#include "codec/text.hpp"

#include <penstock/codec/http/fields.hpp>

namespace penstock::http {

namespace {

std::string challenge(std::string_view scheme, std::string_view realm) {
    for (const char c : realm) {
        if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
            throw std::invalid_argument("the realm '" + std::string(realm) +
                                        "' has a quote, a backslash or a control character");
        }
    }
    return std::string(scheme) + " realm=\"" + std::string(realm) + "\"";
}

/// What stands behind the scheme in the only Authorization field.
std::optional<std::string_view> credentials_of(const Request& request, std::string_view scheme) {
    std::optional<std::string_view> value;
    for (const Field& field : request.fields()) {
        if (codec::http::equal_ignoring_case(field.name, "Authorization")) {
            if (value) {
                return std::nullopt;
            }
            value = field.value;
        }
    }
    if (!value || value->size() <= scheme.size() || (*value)[scheme.size()] != ' ' ||
        !codec::http::equal_ignoring_case(value->substr(0, scheme.size()), scheme)) {
        return std::nullopt;
    }
    return codec::trimmed(value->substr(scheme.size()));
}

bool refuse(Response& response, std::string_view challenge) {
    response.refuse(Status::unauthorized);
    response.header("WWW-Authenticate", challenge);
    return false;
}

} // namespace

bool equal_secrets(std::string_view one, std::string_view other) noexcept {
    // `volatile`, so that no compiler ends the loop at the first difference.
    volatile unsigned char different = one.size() == other.size() ? 0 : 1;
    for (std::size_t at = 0; at < one.size(); ++at) {
        const char against = other.empty() ? '\0' : other[at % other.size()];
        different = static_cast<unsigned char>(different | (static_cast<unsigned char>(one[at]) ^
                                                            static_cast<unsigned char>(against)));
    }
    return different == 0;
}

BasicAuthorization::BasicAuthorization(std::string_view realm, Check check)
    : challenge_(challenge("Basic", realm) + ", charset=\"UTF-8\""), check_(std::move(check)) {}

bool BasicAuthorization::operator()(Request& request, Response& response) const {
    if (const auto credentials = credentials_of(request, "Basic")) {
        if (const std::optional<std::string> pair = codec::decode_base64(*credentials)) {
            const std::size_t colon = pair->find(':');
            const std::string_view text = *pair;
            if (colon != std::string::npos &&
                check_(text.substr(0, colon), text.substr(colon + 1))) {
                return true;
            }
        }
    }
    return refuse(response, challenge_);
}

BearerAuthorization::BearerAuthorization(std::string_view realm, Check check)
    : realm_(challenge("Bearer", realm)), check_(std::move(check)) {}

BearerAuthorization::BearerAuthorization(std::string_view realm, const char* token)
    : BearerAuthorization(realm, std::string(token != nullptr ? token : "")) {}

BearerAuthorization::BearerAuthorization(std::string_view realm, std::string token)
    : BearerAuthorization(realm, [token = std::move(token)](std::string_view sent) {
          return !token.empty() && equal_secrets(sent, token);
      }) {}

bool BearerAuthorization::operator()(Request& request, Response& response) const {
    const std::optional<std::string_view> token = credentials_of(request, "Bearer");
    if (token && check_(*token)) {
        return true;
    }
    // RFC 6750, 3.1: no error code where no token was sent.
    return refuse(response, token ? realm_ + ", error=\"invalid_token\"" : realm_);
}

} // namespace penstock::http
