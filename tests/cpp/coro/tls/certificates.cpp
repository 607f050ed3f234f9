#include "coro/tls/certificates.hpp"

#include <cstdio>
#include <stdexcept>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace penstock::testing {

namespace {

template <auto Free> struct Freed {
    template <typename T> void operator()(T* object) const noexcept { Free(object); }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;

Key make_key() {
    return Key(EVP_EC_gen("P-256"));
}

void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
    if (extension == nullptr) {
        throw std::runtime_error("no such extension: " + value);
    }
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
}

Certificate make_certificate(EVP_PKEY* key, const char* name, long serial, int days) {
    Certificate certificate(X509_new());
    X509_set_version(certificate.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial);
    constexpr long day = 24L * 60 * 60;
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -100 * day);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), days * day);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
    X509_set_pubkey(certificate.get(), key);
    return certificate;
}

template <typename Write> void write_file(const std::string& path, Write write) {
    std::FILE* file = std::fopen(path.c_str(), "w");
    if (file == nullptr || write(file) != 1) {
        throw std::runtime_error("cannot write " + path);
    }
    std::fclose(file);
}

} // namespace

struct Authority::Signer {
    Key key = make_key();
    Certificate certificate = make_certificate(key.get(), "Test Authority", 1, 1);
};

Authority::Authority() : signer_(std::make_unique<Signer>()) {
    X509* certificate = signer_->certificate.get();
    X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
    add_extension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign");
    X509_sign(certificate, signer_->key.get(), EVP_sha256());
    write_file(file(), [&](std::FILE* file) { return PEM_write_X509(file, certificate); });
}

Authority::~Authority() = default;

tls::Identity Authority::sign(const std::string& names, int days) {
    ++signed_;
    X509* issuer = signer_->certificate.get();
    const Key key = make_key();
    const Certificate certificate = make_certificate(key.get(), "Test", 1 + signed_, days);
    X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer));
    add_extension(certificate.get(), issuer, NID_subject_alt_name, names);
    X509_sign(certificate.get(), signer_->key.get(), EVP_sha256());
    const std::string number = std::to_string(signed_);
    tls::Identity identity{.certificate_chain_file = folder_.path("certificate" + number),
                           .private_key_file = folder_.path("key" + number)};
    write_file(identity.certificate_chain_file,
               [&](std::FILE* file) { return PEM_write_X509(file, certificate.get()); });
    write_file(identity.private_key_file, [&](std::FILE* file) {
        return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
    return identity;
}

} // namespace penstock::testing
