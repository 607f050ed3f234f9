#include <penstock/http/headers.hpp>

#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>

#include "codec/text.hpp"

namespace penstock::http {

namespace {

bool is_field_value(std::string_view text) noexcept {
    bool valid = true;
    for (const char c : text) { // without a branch, several characters at a time
        const auto code = static_cast<unsigned char>(c);
        valid &= ((static_cast<int>(code >= 0x20) & static_cast<int>(code != 0x7f)) |
                  static_cast<int>(code == '\t')) != 0;
    }
    return valid;
}

void append_line(std::string& text, std::string_view name, std::string_view value) {
    text.append(name).append(": ").append(value).append("\r\n");
}

} // namespace

Headers::Headers(std::initializer_list<std::pair<std::string_view, std::string_view>> fields) {
    for (const auto& [name, value] : fields) {
        add(name, value);
    }
}

Headers::Headers(const Fields& fields) {
    for (const Field& field : fields) {
        add(field.name, field.value);
    }
}

void Headers::add(std::string_view name, std::string_view value) {
    if (!codec::http::is_token(name)) {
        throw std::invalid_argument("http::Headers: the field name '" + std::string(name) +
                                    "' is not a token; use letters, digits and hyphens");
    }
    value = codec::trimmed(value);
    if (!is_field_value(value)) {
        throw std::invalid_argument("http::Headers: the value of the field '" + std::string(name) +
                                    "' has a control character; remove it");
    }
    const std::size_t before = text_.size();
    if (name.size() + value.size() + 4 > std::numeric_limits<std::uint32_t>::max() - before) {
        throw std::length_error("http::Headers: the fields are larger than 4 GiB");
    }
    if (places_.size() == places_.capacity()) { // before the text changes
        places_.reserve(places_.capacity() * 2 + 8);
    }
    const std::size_t size = before + name.size() + value.size() + 4;
    if (size <= text_.capacity()) {
        append_line(text_, name, value);
    } else { // the views may be of the text, which stays until they are copied
        std::string grown;
        grown.reserve(std::max<std::size_t>(size * 2, 256));
        append_line(grown.append(text_), name, value);
        text_ = std::move(grown);
    }
    places_.push_back({.begin = static_cast<std::uint32_t>(before),
                       .name_size = static_cast<std::uint32_t>(name.size()),
                       .value_size = static_cast<std::uint32_t>(value.size())});
}

void Headers::set(std::string_view name, std::string_view value) {
    const std::size_t before = size();
    add(name, value);
    // The added line may have moved the text to which the arguments refer.
    remove_before(before, (*this)[before].name);
}

std::size_t Headers::remove(std::string_view name) noexcept {
    return remove_before(size(), name);
}

std::size_t Headers::remove_before(std::size_t last, std::string_view name) noexcept {
    // The name may be a view of the text, so the text is changed only after the comparisons.
    std::size_t removed = 0;
    for (std::size_t i = 0; i < last; ++i) {
        if (codec::http::equal_ignoring_case((*this)[i].name, name)) {
            places_[i].removed = true;
            ++removed;
        }
    }
    if (removed == 0) {
        return 0;
    }
    std::size_t kept = 0;
    std::size_t end = 0;
    for (const Place& place : places_) {
        if (place.removed) {
            continue;
        }
        std::copy_n(text_.data() + place.begin, place.size(), text_.data() + end);
        places_[kept] = place;
        places_[kept].begin = static_cast<std::uint32_t>(end);
        end += place.size();
        ++kept;
    }
    places_.resize(kept);
    text_.resize(end);
    return removed;
}

void Headers::clear() noexcept {
    text_.clear();
    places_.clear();
}

std::optional<std::string_view> Headers::find(std::string_view name) const noexcept {
    for (const Field field : *this) {
        if (codec::http::equal_ignoring_case(field.name, name)) {
            return field.value;
        }
    }
    return std::nullopt;
}

std::size_t Headers::count(std::string_view name) const noexcept {
    return static_cast<std::size_t>(std::count_if(begin(), end(), [name](const Field& field) {
        return codec::http::equal_ignoring_case(field.name, name);
    }));
}

bool Headers::has_token(std::string_view name, std::string_view token) const noexcept {
    return std::any_of(begin(), end(), [name, token](const Field& field) {
        return Fields(std::span(&field, 1)).has_token(name, token);
    });
}

Field Headers::operator[](std::size_t index) const noexcept {
    const Place& place = places_[index];
    const std::string_view line = std::string_view(text_).substr(place.begin, place.size());
    return {.name = line.substr(0, place.name_size),
            .value = line.substr(place.name_size + 2, place.value_size)};
}

} // namespace penstock::http
