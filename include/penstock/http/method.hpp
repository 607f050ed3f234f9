#pragma once

#include <string_view>

namespace penstock::http {

/// The method of a request (RFC 9110, section 9). Case-sensitive. A method made from a text is a
/// view: it is valid as long as the text. The named methods are always valid.
///
///     client.request(http::Method::put, url);
///     if (request.method() == http::Method("PROPFIND")) ...
class Method {
public:
    explicit constexpr Method(std::string_view name) noexcept : name_(name) {}

    static const Method get;
    static const Method head;
    static const Method post;
    static const Method put;
    static const Method patch;
    static const Method delete_;
    static const Method options;
    static const Method connect;
    static const Method trace;

    [[nodiscard]] constexpr std::string_view name() const noexcept { return name_; }

    [[nodiscard]] friend constexpr bool operator==(const Method&, const Method&) = default;

    /// Whether the request is not meant to change anything (RFC 9110, section 9.2.1).
    [[nodiscard]] constexpr bool is_safe() const noexcept {
        return name_ == "GET" || name_ == "HEAD" || name_ == "OPTIONS" || name_ == "TRACE";
    }

    /// Whether several identical requests have the effect of one (RFC 9110, section 9.2.2), so that
    /// a client may repeat it after the connection was lost.
    [[nodiscard]] constexpr bool is_idempotent() const noexcept {
        return is_safe() || name_ == "PUT" || name_ == "DELETE";
    }

private:
    std::string_view name_;
};

inline constexpr Method Method::get("GET");
inline constexpr Method Method::head("HEAD");
inline constexpr Method Method::post("POST");
inline constexpr Method Method::put("PUT");
inline constexpr Method Method::patch("PATCH");
inline constexpr Method Method::delete_("DELETE");
inline constexpr Method Method::options("OPTIONS");
inline constexpr Method Method::connect("CONNECT");
inline constexpr Method Method::trace("TRACE");

} // namespace penstock::http
