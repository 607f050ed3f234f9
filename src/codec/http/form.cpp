#include <penstock/codec/http/form.hpp>

#include <penstock/codec/http/target.hpp>

namespace penstock::codec::http {

namespace {

constexpr std::string_view replacement_character = "\xEF\xBF\xBD";

struct Sequence {
    std::size_t size = 1; ///< of the character, or of what is replaced by one U+FFFD
    bool valid = false;
};

/// The first character of UTF-8, or the longest begin of one (Unicode, 3.9: maximal subparts).
Sequence first_sequence(std::string_view text) noexcept {
    const auto byte = [text](std::size_t at) { return static_cast<unsigned char>(text[at]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80) {
        return {.size = 1, .valid = true};
    }
    if (lead < 0xC2 || lead > 0xF4) {
        return {};
    }
    const std::size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    // The second byte excludes overlong forms, surrogates, and what is beyond U+10FFFF.
    unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    for (std::size_t at = 1; at < size; ++at) {
        if (at == text.size() || byte(at) < low || byte(at) > high) {
            return {.size = at, .valid = false};
        }
        low = 0x80;
        high = 0xBF;
    }
    return {.size = size, .valid = true};
}

std::string as_utf8(std::string text) {
    std::size_t valid = 0;
    while (valid < text.size()) {
        const Sequence sequence = first_sequence(std::string_view(text).substr(valid));
        if (!sequence.valid) {
            break;
        }
        valid += sequence.size;
    }
    if (valid == text.size()) {
        return text;
    }
    std::string repaired = text.substr(0, valid);
    for (std::string_view rest = std::string_view(text).substr(valid); !rest.empty();) {
        const Sequence sequence = first_sequence(rest);
        repaired += sequence.valid ? rest.substr(0, sequence.size) : replacement_character;
        rest.remove_prefix(sequence.size);
    }
    return repaired;
}

} // namespace

std::string_view describe(FormError error) noexcept {
    switch (error) {
    case FormError::none:
        return "no error";
    case FormError::unsupported_type:
        return "the Content-Type is not that of a form";
    case FormError::invalid_boundary:
        return "the boundary of the form is missing or malformed";
    case FormError::invalid_delimiter:
        return "a line begins with the boundary and goes on";
    case FormError::invalid_part_head:
        return "a field of a part is malformed";
    case FormError::invalid_disposition:
        return "a part has no single Content-Disposition: form-data with a name";
    case FormError::unsupported_encoding:
        return "a part has a Content-Transfer-Encoding that changes its content";
    case FormError::truncated:
        return "the form ends before its last delimiter";
    case FormError::too_many_parts:
        return "the form has too many parts";
    case FormError::part_head_too_large:
        return "the head of a part is too large";
    case FormError::too_many_part_fields:
        return "a part has too many fields";
    case FormError::name_too_long:
        return "a name of the form is too long";
    case FormError::value_too_large:
        return "a value of the form is too large";
    case FormError::file_too_large:
        return "a file of the form is too large";
    case FormError::surroundings_too_large:
        return "too much stands before or after the parts of the form";
    case FormError::form_too_large:
        return "the form is too large";
    }
    return "unknown error";
}

int status_for(FormError error) noexcept {
    if (error == FormError::unsupported_type) {
        return 415;
    }
    return error >= FormError::too_many_parts ? 413 : 400;
}

std::string decode_form_text(std::string_view text) {
    return as_utf8(percent_decode(text, Plus::space));
}

std::string base_name(std::string_view file_name) {
    file_name.remove_prefix(file_name.find_last_of("/\\") + 1); // npos + 1 is 0
    std::string name;
    for (const char c : file_name) {
        const auto value = static_cast<unsigned char>(c);
        if (value >= 0x20 && value != 0x7F) {
            name += c;
        }
    }
    return name == "." || name == ".." ? std::string() : name;
}

} // namespace penstock::codec::http
