#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::codec::http {

/// Why a form is refused. The rest of it cannot be used after an error.
enum class FormError : std::uint8_t {
    none,
    unsupported_type,       ///< the Content-Type is not that of a form
    invalid_boundary,       ///< multipart/form-data without a boundary of RFC 2046, 5.1.1
    invalid_delimiter,      ///< a line begins with the boundary and goes on with something else
    invalid_part_head,      ///< a field line of a part is malformed
    invalid_disposition,    ///< a part without one Content-Disposition: form-data with a name
    unsupported_encoding,   ///< a Content-Transfer-Encoding that changes the content
    truncated,              ///< the form ends before its last delimiter
    too_many_parts,         ///< beyond `FormLimits::parts`
    part_head_too_large,    ///< beyond `FormLimits::part_head`
    too_many_part_fields,   ///< beyond `FormLimits::part_fields`
    name_too_long,          ///< beyond `FormLimits::name`
    value_too_large,        ///< beyond `FormLimits::value`
    file_too_large,         ///< beyond `FormLimits::file`
    surroundings_too_large, ///< beyond `FormLimits::surroundings`
    form_too_large,         ///< beyond `FormLimits::total`
};

/// A short description in English.
[[nodiscard]] std::string_view describe(FormError error) noexcept;

/// The status with which a server answers: 400, 413 for what is beyond a limit, 415 for another
/// type.
[[nodiscard]] int status_for(FormError error) noexcept;

/// What is accepted of a form, in bytes unless stated otherwise.
struct FormLimits {
    std::size_t parts = 1000;         ///< how many parts, or pairs of name and value
    std::size_t part_head = 8192;     ///< the fields of one part
    std::size_t part_fields = 16;     ///< how many fields one part has
    std::size_t name = 1024;          ///< a name, or a file name, as it is sent
    std::uint64_t value = 1'048'576;  ///< the content of a part without a file name; one value
    std::uint64_t file = UINT64_MAX;  ///< the content of a part with a file name
    std::uint64_t total = UINT64_MAX; ///< the whole form
    std::size_t surroundings = 8192;  ///< what is before the first and after the last delimiter
};

/// Decodes a name or value of application/x-www-form-urlencoded (WHATWG URL, 5.1): '+' is a space,
/// a percent sign that begins no triplet stays, and what is not UTF-8 then becomes U+FFFD. Throws
/// `std::bad_alloc`.
[[nodiscard]] std::string decode_form_text(std::string_view text);

/// The last segment of a file name that a client has sent, after all '/' and '\\', without control
/// characters. Empty for "." and "..". It may still begin with a dot. Throws `std::bad_alloc`.
[[nodiscard]] std::string base_name(std::string_view file_name);

} // namespace penstock::codec::http
