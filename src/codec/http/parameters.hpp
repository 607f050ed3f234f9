#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::codec::http {

/// What a backslash in a quoted string does.
enum class Backslash : std::uint8_t {
    escapes,        ///< the next character, whatever it is (RFC 9110, 5.6.4)
    escapes_quotes, ///< only a quotation mark or a backslash: clients send "C:\file" in forms
};

/// A parameter of a field value: `boundary` and `x` of `multipart/form-data; boundary="x"`.
struct Parameter {
    std::string_view name;
    std::string value; ///< without quotation marks and their backslashes
};

/// Reads the parameters of a field value one after the other (RFC 9110, 5.6.6).
class ParameterCursor {
public:
    ParameterCursor(std::string_view field, Backslash backslash) noexcept;

    /// What stands before the first semicolon, without white space around it.
    [[nodiscard]] std::string_view subject() const noexcept { return subject_; }

    /// The next one. Nothing at the end, and if the rest is malformed. Throws `std::bad_alloc`.
    [[nodiscard]] std::optional<Parameter> next();

    [[nodiscard]] bool malformed() const noexcept { return malformed_; }

private:
    [[nodiscard]] std::optional<std::string> quoted();
    void skip_space() noexcept;

    std::string_view subject_;
    std::string_view rest_;
    Backslash backslash_;
    bool malformed_ = false;
};

} // namespace penstock::codec::http
