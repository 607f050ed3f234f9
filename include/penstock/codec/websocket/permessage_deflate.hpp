#pragma once

#include <optional>
#include <string>

#include <penstock/codec/http/fields.hpp>

namespace penstock::codec::websocket {

/// The parameters of permessage-deflate (RFC 7692, 7): those that both ends have agreed on, or
/// the limits that one end proposes. The defaults are those of the extension.
struct DeflateParameters {
    bool server_no_context_takeover = false; ///< the server compresses each message by itself
    bool client_no_context_takeover = false; ///< the client does
    int server_max_window_bits = 15; ///< 8 to 15: the server's window is at most 2^bits bytes
    int client_max_window_bits = 15; ///< and the client's

    friend bool operator==(const DeflateParameters&, const DeflateParameters&) = default;
};

/// A server's answer to a client's offers.
struct DeflateAgreement {
    DeflateParameters parameters;
    std::string response; ///< the value of Sec-WebSocket-Extensions
};

/// Selects the first acceptable offer of permessage-deflate in a request's
/// Sec-WebSocket-Extensions. `wanted` has the server's own limits. Empty if no offer is acceptable:
/// the connection then works without compression.
[[nodiscard]] std::optional<DeflateAgreement> accept_offer(const http::Fields& request,
                                                           const DeflateParameters& wanted = {});

/// The value of Sec-WebSocket-Extensions with which a client offers permessage-deflate.
[[nodiscard]] std::string make_offer(const DeflateParameters& wanted = {});

/// The result of a client's check of the response.
struct DeflateAnswer {
    bool valid = true; ///< false: the handshake fails (RFC 7692, 7.1; RFC 6455, 9.1)
    std::optional<DeflateParameters> parameters; ///< empty: no compression
};

/// Checks a response's Sec-WebSocket-Extensions against the offer: `offered` is what `make_offer`
/// got, or empty if nothing was offered.
[[nodiscard]] DeflateAnswer check_answer(const http::Fields& response,
                                         const std::optional<DeflateParameters>& offered);

} // namespace penstock::codec::websocket
