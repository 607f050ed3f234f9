#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// What the TLS handshake of a stream has negotiated. The views are valid until the stream is moved
/// or destroyed.
struct Encryption {
    std::string_view version{};     ///< "TLSv1.3"
    std::string_view cipher{};      ///< OpenSSL's name, such as "TLS_AES_256_GCM_SHA384"
    std::string_view alpn{};        ///< the application protocol (ALPN, RFC 7301). Empty: none
    std::string_view server_name{}; ///< what the client has asked for (SNI, RFC 6066). Empty: none
    bool session_resumed = false;   ///< the handshake has resumed an earlier session
};

/// The identity of the peer of an encrypted stream, from a certificate that an authority which this
/// side trusts has signed.
struct VerifiedPeer {
    /// A name of the subject (RFC 5280, section 4.2.1.6).
    struct Name {
        enum class Kind : std::uint8_t { dns, address, email, uri };

        Kind kind = Kind::dns;
        std::string text{}; ///< an address as "192.0.2.1" or "2001:db8::1"

        friend bool operator==(const Name&, const Name&) = default;
    };

    std::string subject{};     ///< as RFC 2253 writes it: "CN=reader,O=Laboratory"
    std::vector<Name> names{}; ///< in the certificate's order. Other kinds are left out
};

} // namespace penstock
