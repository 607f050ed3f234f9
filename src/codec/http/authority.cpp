#include "codec/http/authority.hpp"

#include <algorithm>
#include <array>

#include <arpa/inet.h>

#include "codec/http/characters.hpp"

namespace penstock::codec::http {

namespace {

constexpr std::string_view largest_port = "65535";

bool is_ipv6(std::string_view text) noexcept {
    std::array<char, INET6_ADDRSTRLEN> terminated{};
    if (text.size() >= terminated.size() || text.find('\0') != std::string_view::npos) {
        return false;
    }
    std::ranges::copy(text, terminated.begin());
    in6_addr address{};
    return ::inet_pton(AF_INET6, terminated.data(), &address) == 1;
}

/// A reg-name with percent-encoded triplets.
bool is_encoded_name(std::string_view text) noexcept {
    while (!text.empty()) {
        if (is(text[0], name_character)) {
            text.remove_prefix(1);
        } else if (text.size() >= 3 && text[0] == '%' && is(text[1], hex_digit) &&
                   is(text[2], hex_digit)) {
            text.remove_prefix(3);
        } else {
            return false;
        }
    }
    return true;
}

/// What is not a plain name.
bool is_other_host(std::string_view text) noexcept {
    return text.starts_with('[') && text.ends_with(']') ? is_ipv6(text.substr(1, text.size() - 2))
                                                        : is_encoded_name(text);
}

} // namespace

bool is_authority(std::string_view text, Port port) noexcept {
    // From the end, because a colon in front may be of an IPv6 address.
    std::size_t rest = text.size();
    while (rest > 0 && is(text[rest - 1], digit)) {
        --rest;
    }
    std::string_view host = text;
    if (rest > 0 && text[rest - 1] == ':') {
        const std::string_view number = text.substr(rest);
        if (number.size() > largest_port.size() ||
            (number.size() == largest_port.size() && number > largest_port) ||
            (number.empty() && port == Port::required)) {
            return false;
        }
        host = text.substr(0, rest - 1);
    } else if (port == Port::required) {
        return false;
    }
    return !host.empty() && (consists_of(host, name_character) || is_other_host(host));
}

} // namespace penstock::codec::http
