#include <penstock/codec/websocket/handshake.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <system_error>

#include <sys/random.h>

#include <penstock/codec/http/fields.hpp>

#include "codec/base64.hpp"
#include "codec/sha1.hpp"

namespace penstock::codec::websocket {

namespace {

constexpr std::string_view version = "13";
/// RFC 6455, 1.3.
constexpr std::string_view unique_text = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
constexpr std::size_t key_size = 24;

/// Whether the text is the base64 form of 16 bytes. The last four bits are unused; some clients set
/// them.
bool is_key(std::string_view text) noexcept {
    return text.size() == key_size && text.ends_with("==") &&
           text.find_first_not_of(base64_alphabet) == key_size - 2;
}

/// The value of a field that must be there once.
std::string_view single(const http::Fields& fields, std::string_view name) noexcept {
    return fields.count(name) == 1 ? fields.find(name).value_or("") : std::string_view{};
}

} // namespace

std::string_view describe(HandshakeError error) noexcept {
    switch (error) {
    case HandshakeError::none:
        return "no error";
    case HandshakeError::invalid_method:
        return "the method is not GET";
    case HandshakeError::unsupported_http:
        return "the HTTP version is not 1.1";
    case HandshakeError::missing_upgrade:
        return "there is no 'Upgrade: websocket'";
    case HandshakeError::missing_connection:
        return "there is no 'Connection: Upgrade'";
    case HandshakeError::unsupported_version:
        return "Sec-WebSocket-Version is not 13";
    case HandshakeError::invalid_key:
        return "Sec-WebSocket-Key is missing, repeated or malformed";
    case HandshakeError::unexpected_body:
        return "the request has a body";
    case HandshakeError::unexpected_status:
        return "the status is not 101";
    case HandshakeError::invalid_accept:
        return "Sec-WebSocket-Accept is missing, repeated or does not fit the key";
    case HandshakeError::invalid_subprotocol:
        return "the server selected a subprotocol that was not offered";
    }
    return "unknown error";
}

int status_for(HandshakeError error) noexcept {
    switch (error) {
    case HandshakeError::invalid_method:
        return 405;
    case HandshakeError::missing_upgrade:
    case HandshakeError::missing_connection:
    case HandshakeError::unsupported_version:
        return 426;
    case HandshakeError::unsupported_http:
        return 505;
    default:
        return 400;
    }
}

HandshakeKey::HandshakeKey() {
    std::array<std::byte, 16> random;
    while (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
        if (errno != EINTR) {
            throw std::system_error(errno, std::generic_category(), "getrandom");
        }
    }
    encode_base64(random, text_.data());
}

AcceptKey::AcceptKey(std::string_view key) noexcept {
    std::array<char, key_size + unique_text.size()> joined{};
    const std::size_t size = key.copy(joined.data(), key_size);
    unique_text.copy(joined.data() + size, unique_text.size());
    encode_base64(sha1({joined.data(), size + unique_text.size()}), text_.data());
}

HandshakeError check_request(const http::RequestHead& head) noexcept {
    if (head.method != "GET") {
        return HandshakeError::invalid_method;
    }
    if (head.minor_version < 1) {
        return HandshakeError::unsupported_http;
    }
    if (!head.fields.has_token("Upgrade", "websocket")) {
        return HandshakeError::missing_upgrade;
    }
    if (!head.fields.has_token("Connection", "upgrade")) {
        return HandshakeError::missing_connection;
    }
    if (single(head.fields, "Sec-WebSocket-Version") != version) {
        return HandshakeError::unsupported_version;
    }
    if (!is_key(single(head.fields, "Sec-WebSocket-Key"))) {
        return HandshakeError::invalid_key;
    }
    if (head.body.kind != http::BodyFraming::Kind::none) {
        return HandshakeError::unexpected_body;
    }
    return HandshakeError::none;
}

std::string_view key_of(const http::RequestHead& head) noexcept {
    return head.fields.find("Sec-WebSocket-Key").value_or(std::string_view{});
}

HandshakeError check_response(const http::ResponseHead& head, std::string_view key,
                              std::span<const std::string_view> offered_subprotocols) noexcept {
    if (head.status != 101) {
        return HandshakeError::unexpected_status;
    }
    if (head.minor_version < 1) {
        return HandshakeError::unsupported_http;
    }
    // Unlike a request's, the field names the one protocol that follows (RFC 6455, 4.1).
    if (!http::equal_ignoring_case(single(head.fields, "Upgrade"), "websocket")) {
        return HandshakeError::missing_upgrade;
    }
    if (!head.fields.has_token("Connection", "upgrade")) {
        return HandshakeError::missing_connection;
    }
    if (single(head.fields, "Sec-WebSocket-Accept") != AcceptKey(key).text()) {
        return HandshakeError::invalid_accept;
    }
    const std::size_t selected = head.fields.count("Sec-WebSocket-Protocol");
    if (selected > 1 ||
        (selected == 1 &&
         std::find(offered_subprotocols.begin(), offered_subprotocols.end(),
                   single(head.fields, "Sec-WebSocket-Protocol")) == offered_subprotocols.end())) {
        return HandshakeError::invalid_subprotocol;
    }
    return HandshakeError::none;
}

std::string_view select_subprotocol(const http::Fields& request,
                                    std::span<const std::string_view> supported) noexcept {
    for (const http::Field& field : request) {
        if (!http::equal_ignoring_case(field.name, "Sec-WebSocket-Protocol")) {
            continue;
        }
        std::string_view list = field.value;
        for (auto offered = http::next_list_element(list); !offered.empty();
             offered = http::next_list_element(list)) {
            const auto found = std::find(supported.begin(), supported.end(), offered);
            if (found != supported.end()) {
                return *found;
            }
        }
    }
    return {};
}

void write_request(http::HeadWriter& head, std::string_view target, std::string_view key) noexcept {
    head.request("GET", target)
        .field("Upgrade", "websocket")
        .field("Connection", "Upgrade")
        .field("Sec-WebSocket-Key", key)
        .field("Sec-WebSocket-Version", version);
}

void write_response(http::HeadWriter& head, std::string_view request_key) noexcept {
    head.status(101)
        .field("Upgrade", "websocket")
        .field("Connection", "Upgrade")
        .field("Sec-WebSocket-Accept", AcceptKey(request_key).text());
}

} // namespace penstock::codec::websocket
