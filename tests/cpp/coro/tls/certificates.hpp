#pragma once

#include <memory>
#include <string>
#include <vector>

#include <penstock/tls/context.hpp>

#include "support/temporary_folder.hpp"

namespace penstock::testing {

/// A certificate authority for one test, with the files of what it signs.
class Authority {
public:
    Authority();
    ~Authority();
    Authority(const Authority&) = delete;
    Authority& operator=(const Authority&) = delete;

    /// A certificate for these names, as in the extension subjectAltName: "DNS:localhost". Expired
    /// if `days` is negative.
    [[nodiscard]] tls::Identity sign(const std::string& names, int days = 1);

    /// The PEM file of the authority's own certificate.
    [[nodiscard]] std::string file() const { return folder_.path("authority.pem"); }

private:
    struct Signer;

    TemporaryFolder folder_;
    std::unique_ptr<Signer> signer_;
    int signed_ = 0;
};

} // namespace penstock::testing
