#include <penstock/tls/errors.hpp>

#include <array>
#include <string>

#include <openssl/err.h>
#include <openssl/x509.h>

#include "detail/error_category.hpp"

namespace penstock::tls {

namespace {

struct TlsErrors {
    static constexpr const char* name = "penstock.tls";

    static std::string message(int value) {
        switch (static_cast<Error>(value)) {
        case Error::truncated:
            return "the peer closed the connection without the end of the encrypted stream";
        case Error::broken:
            return "an earlier write of this encrypted stream did not complete";
        case Error::no_certificate_name:
            return "certificates are verified, but there is no server name to compare: pass one, "
                   "or turn verification off";
        }
        return penstock::detail::unknown_error(value);
    }
};

struct OpensslErrors {
    static constexpr const char* name = "openssl";

    static std::string message(int value) {
        const auto code = static_cast<unsigned long>(static_cast<unsigned>(value));
        if (const char* reason = ERR_reason_error_string(code); reason != nullptr) {
            return reason;
        }
        std::array<char, 256> text{};
        ERR_error_string_n(code, text.data(), text.size());
        return text.data();
    }
};

struct CertificateErrors {
    static constexpr const char* name = "x509";

    static std::string message(int value) {
        return std::string("the peer's certificate is refused: ") +
               X509_verify_cert_error_string(value);
    }
};

} // namespace

const std::error_category& error_category() noexcept {
    return penstock::detail::category_of<TlsErrors>();
}

const std::error_category& openssl_category() noexcept {
    return penstock::detail::category_of<OpensslErrors>();
}

const std::error_category& certificate_category() noexcept {
    return penstock::detail::category_of<CertificateErrors>();
}

} // namespace penstock::tls
