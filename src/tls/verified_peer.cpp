// Who a peer is, from its certificate.

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <penstock/stream/encryption.hpp>
#include <penstock/tls/detail/engine.hpp>

#include "tls/context_state.hpp"

namespace penstock::tls::detail {

namespace {

using Name = VerifiedPeer::Name;

/// A text with a zero byte is a forgery: programs in C would read another name.
std::optional<Name> named(Name::Kind kind, const ASN1_STRING* text) {
    const std::string_view bytes(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                                 static_cast<std::size_t>(ASN1_STRING_length(text)));
    if (bytes.contains('\0')) {
        return std::nullopt;
    }
    return Name{.kind = kind, .text = std::string(bytes)};
}

std::optional<Name> addressed(const ASN1_OCTET_STRING* octets) {
    const int size = ASN1_STRING_length(octets);
    std::array<char, INET6_ADDRSTRLEN> text{};
    const int family = size == 4 ? AF_INET : AF_INET6;
    if ((size != 4 && size != 16) ||
        ::inet_ntop(family, ASN1_STRING_get0_data(octets), text.data(), text.size()) == nullptr) {
        return std::nullopt;
    }
    return Name{.kind = Name::Kind::address, .text = text.data()};
}

std::optional<Name> name_of(const GENERAL_NAME& name) {
    switch (name.type) {
    case GEN_DNS:
        return named(Name::Kind::dns, name.d.dNSName);
    case GEN_EMAIL:
        return named(Name::Kind::email, name.d.rfc822Name);
    case GEN_URI:
        return named(Name::Kind::uri, name.d.uniformResourceIdentifier);
    case GEN_IPADD:
        return addressed(name.d.iPAddress);
    default:
        return std::nullopt;
    }
}

std::string text_of(const X509_NAME* name) {
    const std::unique_ptr<BIO, Freed<BIO_free>> text(BIO_new(BIO_s_mem()));
    constexpr unsigned long utf_8 = XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB;
    if (!text || X509_NAME_print_ex(text.get(), name, 0, utf_8) < 0) {
        return {};
    }
    char* data = nullptr;
    const long size = BIO_get_mem_data(text.get(), &data);
    return {data, static_cast<std::size_t>(size)};
}

} // namespace

std::optional<VerifiedPeer> Engine::verified_peer() const {
    SSL* const connection = connection_.get();
    X509* const certificate = SSL_get0_peer_certificate(connection);
    // Without a certificate, and without verification, the result says that all is well.
    if (certificate == nullptr || (SSL_get_verify_mode(connection) & SSL_VERIFY_PEER) == 0 ||
        SSL_get_verify_result(connection) != X509_V_OK) {
        return std::nullopt;
    }
    // A resumed session has the certificate of the first handshake.
    if (X509_cmp_current_time(X509_get0_notAfter(certificate)) <= 0) {
        return std::nullopt;
    }
    VerifiedPeer peer{.subject = text_of(X509_get_subject_name(certificate))};
    const std::unique_ptr<GENERAL_NAMES, Freed<GENERAL_NAMES_free>> names(
        static_cast<GENERAL_NAMES*>(
            X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
    const int count = names ? sk_GENERAL_NAME_num(names.get()) : 0;
    for (int i = 0; i < count; ++i) {
        if (std::optional<Name> name = name_of(*sk_GENERAL_NAME_value(names.get(), i))) {
            peer.names.push_back(*std::move(name));
        }
    }
    return peer;
}

} // namespace penstock::tls::detail
