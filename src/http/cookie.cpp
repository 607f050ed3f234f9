#include <penstock/http/cookie.hpp>

#include <algorithm>
#include <stdexcept>

#include <penstock/codec/http/date.hpp>
#include <penstock/codec/http/fields.hpp>

#include "codec/text.hpp"

namespace penstock::http {

namespace {

constexpr std::size_t longest_pair = 4096;
constexpr std::size_t longest_attribute = 1024;

/// Takes the next cookie from the front of a field. Nothing at its end.
std::optional<Cookie> take(std::string_view& field) noexcept {
    while (!field.empty()) {
        const std::string_view piece = field.substr(0, field.find(';'));
        field.remove_prefix(std::min(field.size(), piece.size() + 1));
        const std::string_view pair = codec::trimmed(piece);
        if (pair.empty()) {
            continue;
        }
        const std::size_t equals = pair.find('=');
        if (equals == std::string_view::npos) {
            return Cookie{.name = {}, .value = pair};
        }
        return Cookie{.name = codec::trimmed(pair.substr(0, equals)),
                      .value = codec::trimmed(pair.substr(equals + 1))};
    }
    return std::nullopt;
}

bool is_visible(char c) noexcept {
    return c > 0x20 && c < 0x7F;
}

bool is_cookie_value(std::string_view value) noexcept {
    return std::ranges::all_of(value, [](char c) {
        return is_visible(c) && std::string_view("\",;\\").find(c) == std::string_view::npos;
    });
}

bool is_path(std::string_view path) noexcept {
    return path.starts_with('/') && path.size() <= longest_attribute &&
           std::ranges::all_of(path, [](char c) { return is_visible(c) && c != ';'; });
}

bool is_domain(std::string_view domain) noexcept {
    return domain.size() <= longest_attribute && !domain.starts_with('.') &&
           std::ranges::all_of(domain, [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '.' || c == ':' || c == '[' || c == ']';
           });
}

bool has_prefix(std::string_view name, std::string_view prefix) noexcept {
    return codec::http::equal_ignoring_case(name.substr(0, prefix.size()), prefix);
}

void check(const SetCookie& cookie) {
    const auto require = [&cookie](bool holds, const char* reason) {
        if (!holds) {
            throw std::invalid_argument("the cookie \"" + cookie.name + "\" " + reason);
        }
    };
    require(codec::http::is_token(cookie.name), "must have a token as its name");
    require(is_cookie_value(cookie.value),
            "has a value with a space, a control character, '\"', ',', ';', '\\' or what is not "
            "ASCII: encode it, for example as base64");
    require(cookie.name.size() + cookie.value.size() <= longest_pair,
            "is longer than 4096 bytes: browsers ignore it");
    require(cookie.path.empty() || is_path(cookie.path),
            "needs a path that begins with '/', of at most 1024 visible ASCII characters without "
            "';'");
    require(is_domain(cookie.domain), "needs a host name without a dot in front as its domain");
    require(cookie.same_site != SameSite::none || cookie.secure,
            "has SameSite::none and must be secure");
    require(!cookie.partitioned || cookie.secure, "is partitioned and must be secure");
    const bool host_only = has_prefix(cookie.name, "__Host-");
    require((!host_only && !has_prefix(cookie.name, "__Secure-")) || cookie.secure,
            "must be secure because of its name's prefix");
    require(!host_only || (cookie.path == "/" && cookie.domain.empty()),
            "must have the path \"/\" and no domain because of its name's prefix");
}

std::string_view name_of(SameSite same_site) noexcept {
    switch (same_site) {
    case SameSite::strict:
        return "Strict";
    case SameSite::lax:
        return "Lax";
    case SameSite::none:
        break;
    }
    return "None";
}

} // namespace

std::vector<Cookie> cookies(const Fields& fields) {
    std::vector<Cookie> all;
    for (const Field& field : fields) {
        if (!codec::http::equal_ignoring_case(field.name, "Cookie")) {
            continue;
        }
        std::string_view rest = field.value;
        while (const std::optional<Cookie> cookie = take(rest)) {
            all.push_back(*cookie);
        }
    }
    return all;
}

std::optional<std::string_view> find_cookie(const Fields& fields, std::string_view name) noexcept {
    for (const Field& field : fields) {
        if (!codec::http::equal_ignoring_case(field.name, "Cookie")) {
            continue;
        }
        std::string_view rest = field.value;
        while (const std::optional<Cookie> cookie = take(rest)) {
            if (cookie->name == name) {
                return cookie->value;
            }
        }
    }
    return std::nullopt;
}

std::string SetCookie::to_string() const {
    check(*this);
    std::string text = name + "=" + value;
    if (expires) {
        text.append("; Expires=");
        text.append(codec::http::DateText(expires->time_since_epoch().count()).text());
    }
    if (max_age) {
        text += "; Max-Age=" + std::to_string(max_age->count());
    }
    if (!domain.empty()) {
        text += "; Domain=" + domain;
    }
    if (!path.empty()) {
        text += "; Path=" + path;
    }
    if (secure) {
        text += "; Secure";
    }
    if (http_only) {
        text += "; HttpOnly";
    }
    if (same_site) {
        text.append("; SameSite=").append(name_of(*same_site));
    }
    if (partitioned) {
        text += "; Partitioned";
    }
    return text;
}

SetCookie SetCookie::removal() const {
    SetCookie removed = *this;
    removed.value.clear();
    removed.expires = std::chrono::sys_seconds();
    removed.max_age = std::chrono::seconds(0);
    return removed;
}

void set_cookie(Headers& headers, const SetCookie& cookie) {
    headers.add("Set-Cookie", cookie.to_string());
}

} // namespace penstock::http
