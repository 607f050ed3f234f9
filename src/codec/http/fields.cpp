#include <penstock/codec/http/fields.hpp>

#include "codec/http/characters.hpp"

namespace penstock::codec::http {

namespace {

char lower(char c) noexcept {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
}

bool is_space(char c) noexcept {
    return c == ' ' || c == '\t';
}

} // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
    if (a.size() != b.size()) {
        return false;
    }
    if (a == b) { // programs write names in lower case, and clients values too
        return true;
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (lower(a[i]) != lower(b[i])) {
            return false;
        }
    }
    return true;
}

std::optional<std::string_view> Fields::find(std::string_view name) const noexcept {
    for (const Field& field : fields_) {
        if (equal_ignoring_case(field.name, name)) {
            return field.value;
        }
    }
    return std::nullopt;
}

std::size_t Fields::count(std::string_view name) const noexcept {
    std::size_t found = 0;
    for (const Field& field : fields_) {
        found += equal_ignoring_case(field.name, name) ? 1 : 0;
    }
    return found;
}

bool Fields::has_token(std::string_view name, std::string_view token) const noexcept {
    for (const Field& field : fields_) {
        if (!equal_ignoring_case(field.name, name)) {
            continue;
        }
        std::string_view list = field.value;
        for (auto element = next_list_element(list); !element.empty();
             element = next_list_element(list)) {
            if (equal_ignoring_case(element, token)) {
                return true;
            }
        }
    }
    return false;
}

std::string_view next_list_element(std::string_view& list, char separator) noexcept {
    for (;;) {
        while (!list.empty() && (is_space(list.front()) || list.front() == separator)) {
            list.remove_prefix(1);
        }
        if (list.empty()) {
            return {};
        }
        std::size_t size = 0;
        bool quoted = false;
        for (; size < list.size() && (quoted || list[size] != separator); ++size) {
            if (quoted && list[size] == '\\' && size + 1 < list.size()) {
                ++size;
            } else if (list[size] == '"') {
                quoted = !quoted;
            }
        }
        std::string_view element = list.substr(0, size);
        list.remove_prefix(size);
        while (!element.empty() && is_space(element.back())) {
            element.remove_suffix(1);
        }
        return element;
    }
}

bool is_token(std::string_view text) noexcept {
    return !text.empty() && consists_of(text, token_character);
}

} // namespace penstock::codec::http
