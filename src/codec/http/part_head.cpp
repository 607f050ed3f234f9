#include "codec/http/part_head.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include <penstock/codec/http/fields.hpp>
#include <penstock/codec/http/target.hpp>

#include "codec/http/characters.hpp"
#include "codec/http/parameters.hpp"
#include "codec/text.hpp"

namespace penstock::codec::http {

namespace {

/// Decodes what browsers encode in names (WHATWG HTML, multipart/form-data encoding algorithm), and
/// nothing else: any other percent sign is itself.
std::string decode_name(std::string text) {
    constexpr std::array<std::pair<std::string_view, char>, 5> codes{
        {{"%22", '"'}, {"%0D", '\r'}, {"%0d", '\r'}, {"%0A", '\n'}, {"%0a", '\n'}}};
    for (std::size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at + 1)) {
        for (const auto& [code, character] : codes) {
            if (text.compare(at, code.size(), code) == 0) {
                text.replace(at, code.size(), 1, character);
                break;
            }
        }
    }
    return text;
}

/// An extended value (RFC 8187, 3.2): UTF-8'en'%e2%82%ac. Only of UTF-8, which all must know.
std::optional<std::string> decode_extended(std::string_view text) {
    constexpr std::string_view charset = "UTF-8'";
    if (!equal_ignoring_case(text.substr(0, charset.size()), charset)) {
        return std::nullopt;
    }
    const std::size_t language_end = text.find('\'', charset.size());
    if (language_end == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view encoded = text.substr(language_end + 1);
    if (!is_percent_encoded(encoded)) {
        return std::nullopt;
    }
    return percent_decode(encoded);
}

FormError parse_disposition(std::string_view value, const FormLimits& limits, FormPart& part) {
    ParameterCursor cursor(value, Backslash::escapes_quotes);
    if (!equal_ignoring_case(cursor.subject(), "form-data")) {
        return FormError::invalid_disposition;
    }
    std::optional<std::string> name;
    std::optional<std::string> extended;
    while (std::optional<Parameter> parameter = cursor.next()) {
        std::optional<std::string>* place = nullptr;
        if (equal_ignoring_case(parameter->name, "name")) {
            place = &name;
        } else if (equal_ignoring_case(parameter->name, "filename")) {
            place = &part.file_name;
        } else if (equal_ignoring_case(parameter->name, "filename*")) {
            place = &extended;
        } else {
            continue;
        }
        if (*place) { // two recipients would take two different ones
            return FormError::invalid_disposition;
        }
        if (parameter->value.size() > limits.name) {
            return FormError::name_too_long;
        }
        *place = std::move(parameter->value);
    }
    if (cursor.malformed() || !name) {
        return FormError::invalid_disposition;
    }
    part.name = decode_name(std::move(*name));
    if (part.file_name) {
        part.file_name = decode_name(std::move(*part.file_name));
    } else if (extended) {
        part.file_name = decode_extended(*extended);
        if (!part.file_name) {
            return FormError::invalid_disposition;
        }
    }
    return FormError::none;
}

/// Splits a line. Nothing if it is not a field.
std::optional<Field> field_of(std::string_view line) noexcept {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon)) ||
        find_control(line.data(), line.data() + line.size()) != line.data() + line.size()) {
        return std::nullopt;
    }
    return Field{.name = line.substr(0, colon), .value = trimmed(line.substr(colon + 1))};
}

bool is_identity(std::string_view encoding) noexcept {
    constexpr std::array<std::string_view, 3> encodings{"7bit", "8bit", "binary"};
    return std::ranges::any_of(encodings, [encoding](std::string_view known) {
        return equal_ignoring_case(encoding, known);
    });
}

} // namespace

FormError parse_part_head(std::string_view head, const FormLimits& limits, FormPart& part) {
    part = {};
    bool has_disposition = false;
    bool has_type = false;
    for (std::size_t fields = 0; !head.empty(); ++fields) {
        if (fields == limits.part_fields) {
            return FormError::too_many_part_fields;
        }
        const std::string_view line = head.substr(0, head.find("\r\n"));
        head.remove_prefix(std::min(head.size(), line.size() + 2));
        const std::optional<Field> field = field_of(line);
        if (!field) {
            return FormError::invalid_part_head;
        }
        if (equal_ignoring_case(field->name, "Content-Disposition")) {
            if (std::exchange(has_disposition, true)) {
                return FormError::invalid_disposition;
            }
            if (const FormError error = parse_disposition(field->value, limits, part);
                error != FormError::none) {
                return error;
            }
        } else if (equal_ignoring_case(field->name, "Content-Type")) {
            if (std::exchange(has_type, true)) {
                return FormError::invalid_part_head;
            }
            part.content_type = field->value;
        } else if (equal_ignoring_case(field->name, "Content-Transfer-Encoding") &&
                   !is_identity(field->value)) {
            return FormError::unsupported_encoding;
        }
    }
    if (!has_disposition) {
        return FormError::invalid_disposition;
    }
    if (part.content_type.empty()) {
        part.content_type = "text/plain";
    }
    return FormError::none;
}

std::optional<std::string> multipart_boundary(std::string_view content_type) {
    ParameterCursor cursor(content_type, Backslash::escapes);
    if (!equal_ignoring_case(cursor.subject(), "multipart/form-data")) {
        return std::nullopt;
    }
    std::optional<std::string> boundary;
    while (std::optional<Parameter> parameter = cursor.next()) {
        if (equal_ignoring_case(parameter->name, "boundary")) {
            if (boundary) {
                return std::nullopt;
            }
            boundary = std::move(parameter->value);
        }
    }
    constexpr std::size_t longest = 70;
    if (cursor.malformed() || !boundary || boundary->empty() || boundary->size() > longest ||
        boundary->back() == ' ') {
        return std::nullopt;
    }
    const auto allowed = [](char c) {
        return is(c, letter) || is(c, digit) ||
               std::string_view("'()+_,-./:=? ").find(c) != std::string_view::npos;
    };
    return std::ranges::all_of(*boundary, allowed) ? boundary : std::nullopt;
}

} // namespace penstock::codec::http
