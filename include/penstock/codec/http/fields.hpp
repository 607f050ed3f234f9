#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace penstock::codec::http {

/// One field line, as it was sent, without white space around the value. Views of the parsed
/// buffer.
struct Field {
    std::string_view name;
    std::string_view value;
};

/// Whether two ASCII texts are equal if upper and lower case are not distinguished, as in field
/// names and in most tokens.
[[nodiscard]] bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept;

/// The fields of a message in their order. A view: valid as long as the field storage and the
/// parsed buffer.
class Fields {
public:
    constexpr Fields() = default;
    explicit constexpr Fields(std::span<const Field> fields) noexcept : fields_(fields) {}

    [[nodiscard]] std::size_t size() const noexcept { return fields_.size(); }
    [[nodiscard]] bool empty() const noexcept { return fields_.empty(); }
    [[nodiscard]] const Field& operator[](std::size_t index) const noexcept {
        return fields_[index];
    }
    [[nodiscard]] auto begin() const noexcept { return fields_.begin(); }
    [[nodiscard]] auto end() const noexcept { return fields_.end(); }

    /// The value of the first field of that name in any case, if there is one.
    [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const noexcept;

    /// How many fields have that name in any case.
    [[nodiscard]] std::size_t count(std::string_view name) const noexcept;

    /// Whether a comma-separated list, possibly spread over several fields of that name, has the
    /// token, in any case.
    [[nodiscard]] bool has_token(std::string_view name, std::string_view token) const noexcept;

private:
    std::span<const Field> fields_;
};

/// Takes the next element of a comma-separated list (RFC 9110, 5.6.1) from the front of `list`,
/// without white space around it. Commas inside quoted strings do not separate. Empty elements are
/// skipped. Empty when the list has ended.
[[nodiscard]] std::string_view next_list_element(std::string_view& list,
                                                 char separator = ',') noexcept;

/// Whether the text is a token (RFC 9110, 5.6.2): at least one character, none of them a separator.
[[nodiscard]] bool is_token(std::string_view text) noexcept;

} // namespace penstock::codec::http
