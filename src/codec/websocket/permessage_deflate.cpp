#include <penstock/codec/websocket/permessage_deflate.hpp>

#include <algorithm>
#include <string_view>

#include "codec/text.hpp"

namespace penstock::codec::websocket {

namespace {

constexpr std::string_view extension_name = "permessage-deflate";
constexpr std::string_view header_name = "Sec-WebSocket-Extensions";

/// One extension as it was written, before its values are judged.
struct Written {
    bool server_no_context_takeover = false;
    bool client_no_context_takeover = false;
    bool has_server_bits = false;
    bool has_client_bits = false;
    int server_bits = 0; ///< 0: no value
    int client_bits = 0;
};

/// 8 to 15 without leading zeros, or 0.
int window_bits(std::string_view value) noexcept {
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
        value = value.substr(1, value.size() - 2);
    }
    if (value.size() == 1 && (value[0] == '8' || value[0] == '9')) {
        return value[0] - '0';
    }
    if (value.size() == 2 && value[0] == '1' && value[1] >= '0' && value[1] <= '5') {
        return 10 + (value[1] - '0');
    }
    return 0;
}

/// The parameters after the extension's name; empty if one is unknown, repeated or invalid.
std::optional<Written> read(std::string_view parameters) {
    Written written;
    for (auto parameter = http::next_list_element(parameters, ';'); !parameter.empty();
         parameter = http::next_list_element(parameters, ';')) {
        const std::size_t equals = parameter.find('=');
        const std::string_view name = trimmed(parameter.substr(0, equals));
        const bool has_value = equals != std::string_view::npos;
        const std::string_view value = has_value ? trimmed(parameter.substr(equals + 1)) : "";
        const int bits = window_bits(value);
        if (has_value && bits == 0) {
            return std::nullopt;
        }
        bool* seen = nullptr;
        if (name == "server_no_context_takeover" && !has_value) {
            seen = &written.server_no_context_takeover;
        } else if (name == "client_no_context_takeover" && !has_value) {
            seen = &written.client_no_context_takeover;
        } else if (name == "server_max_window_bits" && has_value) {
            seen = &written.has_server_bits;
            written.server_bits = bits;
        } else if (name == "client_max_window_bits") {
            seen = &written.has_client_bits;
            written.client_bits = bits;
        }
        if (seen == nullptr || *seen) {
            return std::nullopt;
        }
        *seen = true;
    }
    return written;
}

struct Extension {
    std::string_view name;
    std::string_view parameters;
};

/// Takes the next extension from a list; empty when the list has ended.
std::optional<Extension> next_extension(std::string_view& list) noexcept {
    const std::string_view element = http::next_list_element(list);
    if (element.empty()) {
        return std::nullopt;
    }
    const std::size_t end = std::min(element.find(';'), element.size());
    return Extension{.name = trimmed(element.substr(0, end)), .parameters = element.substr(end)};
}

DeflateAgreement agree(const Written& offer, const DeflateParameters& wanted) {
    DeflateAgreement agreement;
    DeflateParameters& agreed = agreement.parameters;
    agreed.server_no_context_takeover =
        offer.server_no_context_takeover || wanted.server_no_context_takeover;
    agreed.client_no_context_takeover =
        offer.client_no_context_takeover || wanted.client_no_context_takeover;
    agreed.server_max_window_bits = wanted.server_max_window_bits;
    if (offer.has_server_bits) {
        agreed.server_max_window_bits = std::min(agreed.server_max_window_bits, offer.server_bits);
    }
    if (offer.has_client_bits) {
        agreed.client_max_window_bits = wanted.client_max_window_bits;
        if (offer.client_bits != 0) {
            agreed.client_max_window_bits =
                std::min(agreed.client_max_window_bits, offer.client_bits);
        }
    }
    std::string& text = agreement.response;
    text = extension_name;
    if (agreed.server_no_context_takeover) {
        text += "; server_no_context_takeover";
    }
    if (agreed.client_no_context_takeover) {
        text += "; client_no_context_takeover";
    }
    if (offer.has_server_bits || agreed.server_max_window_bits != 15) {
        text += "; server_max_window_bits=" + std::to_string(agreed.server_max_window_bits);
    }
    if (offer.has_client_bits && agreed.client_max_window_bits != 15) {
        text += "; client_max_window_bits=" + std::to_string(agreed.client_max_window_bits);
    }
    return agreement;
}

} // namespace

std::optional<DeflateAgreement> accept_offer(const http::Fields& request,
                                             const DeflateParameters& wanted) {
    for (const http::Field& field : request) {
        if (!http::equal_ignoring_case(field.name, header_name)) {
            continue;
        }
        std::string_view list = field.value;
        while (const std::optional<Extension> extension = next_extension(list)) {
            if (extension->name != extension_name) {
                continue;
            }
            const std::optional<Written> offer = read(extension->parameters);
            // A server that must bound the client's window cannot, unless the client offers it (RFC
            // 7692, 7.1.2.2).
            if (offer && (offer->has_client_bits || wanted.client_max_window_bits == 15)) {
                return agree(*offer, wanted);
            }
        }
    }
    return std::nullopt;
}

std::string make_offer(const DeflateParameters& wanted) {
    std::string text(extension_name);
    if (wanted.server_no_context_takeover) {
        text += "; server_no_context_takeover";
    }
    if (wanted.client_no_context_takeover) {
        text += "; client_no_context_takeover";
    }
    if (wanted.server_max_window_bits != 15) {
        text += "; server_max_window_bits=" + std::to_string(wanted.server_max_window_bits);
    }
    text += "; client_max_window_bits";
    if (wanted.client_max_window_bits != 15) {
        text += "=" + std::to_string(wanted.client_max_window_bits);
    }
    return text;
}

DeflateAnswer check_answer(const http::Fields& response,
                           const std::optional<DeflateParameters>& offered) {
    DeflateAnswer answer;
    const DeflateAnswer refused{.valid = false, .parameters = std::nullopt};
    for (const http::Field& field : response) {
        if (!http::equal_ignoring_case(field.name, header_name)) {
            continue;
        }
        std::string_view list = field.value;
        while (const std::optional<Extension> extension = next_extension(list)) {
            if (extension->name != extension_name || !offered || answer.parameters) {
                return refused;
            }
            const std::optional<Written> written = read(extension->parameters);
            if (!written || (written->has_client_bits && written->client_bits == 0)) {
                return refused;
            }
            DeflateParameters agreed;
            agreed.server_no_context_takeover = written->server_no_context_takeover;
            agreed.client_no_context_takeover =
                written->client_no_context_takeover || offered->client_no_context_takeover;
            agreed.server_max_window_bits = written->has_server_bits ? written->server_bits : 15;
            agreed.client_max_window_bits = offered->client_max_window_bits;
            if (written->has_client_bits) {
                agreed.client_max_window_bits =
                    std::min(agreed.client_max_window_bits, written->client_bits);
            }
            // What was asked of the server must be granted.
            if (agreed.server_max_window_bits > offered->server_max_window_bits ||
                (offered->server_no_context_takeover && !agreed.server_no_context_takeover)) {
                return refused;
            }
            answer.parameters = agreed;
        }
    }
    return answer;
}

} // namespace penstock::codec::websocket
