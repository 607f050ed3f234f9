#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// What the two sides of an encrypted stream have agreed on. The views are valid as long as the
/// stream is where it is.
struct Encryption {
    std::string_view version{};     ///< "TLSv1.3"
    std::string_view cipher{};      ///< OpenSSL's name, such as "TLS_AES_256_GCM_SHA384"
    std::string_view alpn{};        ///< the protocol (RFC 7301). Empty: none
    std::string_view server_name{}; ///< that the client has asked for (RFC 6066). Empty: none
    bool session_resumed = false;   ///< the handshake has continued an earlier session
};

/// Who the peer of an encrypted stream is, by a certificate that an authority of this side's has
/// signed.
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
