#include <penstock/tls/errors.hpp>

#include <array>
#include <string>

#include <openssl/err.h>
#include <openssl/x509.h>

#include <penstock/io/never_destroyed.hpp>

namespace penstock::tls {

namespace {

class Category final : public std::error_category {
public:
    [[nodiscard]] const char* name() const noexcept override { return "penstock.tls"; }

    [[nodiscard]] std::string message(int value) const override {
        switch (static_cast<Error>(value)) {
        case Error::truncated:
            return "the peer closed the connection without the end of the encrypted stream";
        case Error::broken:
            return "an earlier write of this encrypted stream did not complete";
        case Error::no_certificate_name:
            return "certificates are verified, but there is no server name to compare: pass one, "
                   "or turn verification off";
        }
        return "unknown error " + std::to_string(value);
    }
};

class OpensslCategory final : public std::error_category {
public:
    [[nodiscard]] const char* name() const noexcept override { return "openssl"; }

    [[nodiscard]] std::string message(int value) const override {
        const auto code = static_cast<unsigned long>(static_cast<unsigned>(value));
        if (const char* reason = ERR_reason_error_string(code); reason != nullptr) {
            return reason;
        }
        std::array<char, 256> text{};
        ERR_error_string_n(code, text.data(), text.size());
        return text.data();
    }
};

class CertificateCategory final : public std::error_category {
public:
    [[nodiscard]] const char* name() const noexcept override { return "x509"; }

    [[nodiscard]] std::string message(int value) const override {
        return std::string("the peer's certificate is refused: ") +
               X509_verify_cert_error_string(value);
    }
};

} // namespace

const std::error_category& error_category() noexcept {
    static const io::NeverDestroyed<Category> category;
    return *category;
}

const std::error_category& openssl_category() noexcept {
    static const io::NeverDestroyed<OpensslCategory> category;
    return *category;
}

const std::error_category& certificate_category() noexcept {
    static const io::NeverDestroyed<CertificateCategory> category;
    return *category;
}

} // namespace penstock::tls
