#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace penstock::codec::http {

/// The parts of a request target (RFC 9112, section 3.2). Views of it.
struct Target {
    std::string_view path;  ///< "/" at least; empty in the authority form, "*" in the asterisk form
    std::string_view query; ///< without the question mark
    std::string_view authority; ///< of the absolute form, and of the authority form
};

/// Splits a target that a `RequestParser` has accepted.
[[nodiscard]] Target split_target(std::string_view target) noexcept;

/// Whether each percent sign begins a triplet, and none stands for the zero byte (RFC 3986, section
/// 2.1).
[[nodiscard]] bool is_percent_encoded(std::string_view text) noexcept;

/// What '+' stands for.
enum class Plus { itself, space };

/// Decodes percent-encoded text. A percent sign that begins no triplet stays. Throws
/// `std::bad_alloc`.
[[nodiscard]] std::string percent_decode(std::string_view text, Plus plus = Plus::itself);

/// Whether the decoded form of `encoded` is `plain`. Does not allocate.
[[nodiscard]] bool decodes_to(std::string_view encoded, std::string_view plain) noexcept;

/// The decoded value of the first parameter with this name in a query
/// (application/x-www-form-urlencoded). Empty if there is none. Throws `std::bad_alloc`.
[[nodiscard]] std::optional<std::string> find_parameter(std::string_view query,
                                                        std::string_view name);

} // namespace penstock::codec::http
