#include <penstock/ws/detail/url.hpp>

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include <penstock/codec/http/fields.hpp>
#include <penstock/codec/http/target.hpp>

namespace penstock::ws::detail {

namespace {

constexpr std::uint16_t default_port = 80;
constexpr std::uint16_t default_secure_port = 443;

[[nodiscard]] bool begins_with(std::string_view text, std::string_view scheme) noexcept {
    return codec::http::equal_ignoring_case(text.substr(0, scheme.size()), scheme);
}

/// No space, control character or byte outside of ASCII.
[[nodiscard]] bool printable(std::string_view text) noexcept {
    return std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

struct Authority {
    std::string_view host; ///< an IPv6 address with its brackets
    std::uint16_t port = 0;

    [[nodiscard]] std::string name() const {
        return std::string(host.starts_with('[') ? host.substr(1, host.size() - 2) : host);
    }
};

/// "host", "host:port" or "[address]:port". Nothing if it is none of these.
[[nodiscard]] std::optional<Authority> split(std::string_view text, std::uint16_t usual_port) {
    const bool bracketed = text.starts_with('[');
    const std::size_t host_end = bracketed ? text.find(']') : text.find(':');
    if (bracketed && host_end == std::string_view::npos) {
        return std::nullopt;
    }
    Authority authority{.host = text.substr(0, bracketed ? host_end + 1 : host_end),
                        .port = usual_port};
    std::string_view port = text.substr(authority.host.size());
    if (authority.host.size() == (bracketed ? 2U : 0U) ||
        (!port.empty() && !port.starts_with(':'))) {
        return std::nullopt;
    }
    if (port.size() > 1) {
        port.remove_prefix(1);
        const auto [end, error] =
            std::from_chars(port.data(), port.data() + port.size(), authority.port);
        if (error != std::errc() || end != port.data() + port.size() || authority.port == 0) {
            return std::nullopt;
        }
    }
    return authority;
}

/// Without its percent-encoding. Nothing if that is malformed or stands for the zero byte.
[[nodiscard]] std::optional<std::string> decoded(std::string_view text) {
    return codec::http::is_percent_encoded(text) ? std::optional(codec::http::percent_decode(text))
                                                 : std::nullopt;
}

} // namespace

Result<Url> parse_url(std::string_view text) {
    Url url;
    if (begins_with(text, "ws://")) {
        text.remove_prefix(5);
    } else if (begins_with(text, "wss://")) {
        url.secure = true;
        text.remove_prefix(6);
    } else {
        return failure(std::errc::invalid_argument);
    }
    const std::string_view authority = text.substr(0, text.find_first_of("/?#"));
    const std::string_view target = text.substr(authority.size());
    const std::uint16_t usual_port = url.secure ? default_secure_port : default_port;
    const std::optional<Authority> parts = split(authority, usual_port);
    if (!printable(text) || target.contains('#') || authority.contains('@') || !parts) {
        return failure(std::errc::invalid_argument);
    }
    url.host = parts->name();
    url.port = parts->port;
    url.authority = parts->host;
    if (url.port != usual_port) {
        url.authority += ":" + std::to_string(url.port);
    }
    url.target = target.starts_with('/') ? "" : "/";
    url.target += target;
    return url;
}

Result<Proxy> parse_proxy(std::string_view text) {
    constexpr std::string_view scheme = "http://";
    constexpr std::string_view secure_scheme = "https://";
    const bool secure = begins_with(text, secure_scheme);
    if ((!secure && !begins_with(text, scheme)) || !printable(text)) {
        return failure(std::errc::invalid_argument);
    }
    text.remove_prefix(secure ? secure_scheme.size() : scheme.size());
    if (text.ends_with('/')) {
        text.remove_suffix(1);
    }
    std::string credentials;
    if (const std::size_t at = text.rfind('@'); at != std::string_view::npos) {
        std::optional<std::string> plain = decoded(text.substr(0, at));
        if (!plain || text.find(':') > at) {
            return failure(std::errc::invalid_argument);
        }
        credentials = std::move(*plain);
        text.remove_prefix(at + 1);
    }
    const std::optional<Authority> parts = split(text, secure ? default_secure_port : default_port);
    if (!parts || text.find_first_of("/?#") != std::string_view::npos) {
        return failure(std::errc::invalid_argument);
    }
    return Proxy{.secure = secure,
                 .host = parts->name(),
                 .port = parts->port,
                 .credentials = std::move(credentials)};
}

} // namespace penstock::ws::detail
