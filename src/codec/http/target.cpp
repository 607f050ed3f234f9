#include <penstock/codec/http/target.hpp>

#include <cstddef>

#include "codec/text.hpp"

namespace penstock::codec::http {

namespace {

/// The byte of the triplet at the front, or -1.
int triplet(std::string_view text) noexcept {
    if (text.size() < 3 || text[0] != '%') {
        return -1;
    }
    const int high = hex_value(text[1]);
    const int low = hex_value(text[2]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/// Takes one decoded character from the front.
char take(std::string_view& text, Plus plus) noexcept {
    const int byte = triplet(text);
    const char c = byte >= 0 ? static_cast<char>(byte) : text.front();
    text.remove_prefix(byte >= 0 ? 3 : 1);
    return byte < 0 && c == '+' && plus == Plus::space ? ' ' : c;
}

bool decodes_to(std::string_view encoded, std::string_view plain, Plus plus) noexcept {
    for (const char expected : plain) {
        if (encoded.empty() || take(encoded, plus) != expected) {
            return false;
        }
    }
    return encoded.empty();
}

} // namespace

Target split_target(std::string_view target) noexcept {
    Target parts;
    if (!target.starts_with('/') && target != "*") {
        const std::size_t scheme = target.find("://");
        if (scheme == std::string_view::npos || target.find_first_of("/?") < scheme) {
            parts.authority = target;
            return parts;
        }
        target.remove_prefix(scheme + 3);
        parts.authority = target.substr(0, target.find_first_of("/?"));
        target.remove_prefix(parts.authority.size());
    }
    const std::size_t mark = target.find('?');
    parts.path = target.substr(0, mark);
    if (mark != std::string_view::npos) {
        parts.query = target.substr(mark + 1);
    }
    if (parts.path.empty()) {
        parts.path = "/";
    }
    return parts;
}

bool is_percent_encoded(std::string_view text) noexcept {
    for (std::size_t at = text.find('%'); at != std::string_view::npos;
         at = text.find('%', at + 3)) {
        if (triplet(text.substr(at)) <= 0) {
            return false;
        }
    }
    return true;
}

std::string percent_decode(std::string_view text, Plus plus) {
    std::string decoded;
    decoded.reserve(text.size());
    while (!text.empty()) {
        decoded += take(text, plus);
    }
    return decoded;
}

bool decodes_to(std::string_view encoded, std::string_view plain) noexcept {
    return encoded == plain || decodes_to(encoded, plain, Plus::itself);
}

std::optional<std::string> find_parameter(std::string_view query, std::string_view name) {
    while (!query.empty()) {
        const std::string_view parameter = query.substr(0, query.find('&'));
        query.remove_prefix(parameter.size() == query.size() ? query.size() : parameter.size() + 1);
        const std::size_t equals = parameter.find('=');
        if (decodes_to(parameter.substr(0, equals), name, Plus::space) && !parameter.empty()) {
            return equals == std::string_view::npos
                       ? std::string()
                       : percent_decode(parameter.substr(equals + 1), Plus::space);
        }
    }
    return std::nullopt;
}

} // namespace penstock::codec::http
