#include "http/client/failure.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

#include <penstock/io/never_destroyed.hpp>

namespace penstock::http {

namespace {

/// The texts of the last failures. An `std::error_code` is two words, so the code has only the
/// number of its text. Rejected: texts that live as long as the process (a client that meets a
/// broken server for weeks would fill the memory), and a text in an argument of each request.
class FailureTexts {
public:
    static FailureTexts& instance() {
        static io::NeverDestroyed<FailureTexts> texts;
        return *texts;
    }

    [[nodiscard]] int add(ClientError error, std::string text) noexcept {
        const std::lock_guard guard(lock_);
        serial_ = serial_ % max_serial + 1;
        Entry& entry = entries_[serial_ % entries_.size()];
        entry.serial = serial_;
        entry.text = std::move(text);
        return static_cast<int>((serial_ << kind_bits) | static_cast<std::uint32_t>(error));
    }

    /// Empty if other failures have replaced it.
    [[nodiscard]] std::string find(int value) const {
        const std::uint32_t serial = static_cast<std::uint32_t>(value) >> kind_bits;
        const std::lock_guard guard(lock_);
        const Entry& entry = entries_[serial % entries_.size()];
        return serial != 0 && entry.serial == serial ? entry.text : std::string();
    }

    [[nodiscard]] static ClientError error_of(int value) noexcept {
        return static_cast<ClientError>(static_cast<std::uint32_t>(value) & kind_mask);
    }

private:
    static constexpr std::uint32_t kind_bits = 8;
    static constexpr std::uint32_t kind_mask = (std::uint32_t{1} << kind_bits) - 1;
    static constexpr std::uint32_t max_serial = (std::uint32_t{1} << (31 - kind_bits)) - 1;

    struct Entry {
        std::uint32_t serial = 0;
        std::string text;
    };

    mutable std::mutex lock_;
    std::array<Entry, 256> entries_;
    std::uint32_t serial_ = 0;
};

/// The cause and the remedy.
const char* describe(ClientError error) noexcept {
    switch (error) {
    case ClientError::invalid_url:
        return "the URL is not valid; write it as https://host/path, with %20 for spaces";
    case ClientError::unsupported_scheme:
        return "the URL's scheme is not supported; use http or https";
    case ClientError::invalid_request:
        return "the request is not valid; correct its method or fields";
    case ClientError::unusable_certificate:
        return "a certificate or key cannot be used; check the files in ClientTls";
    case ClientError::name_not_resolved:
        return "the host's name has no address; check the name and the machine's DNS servers";
    case ClientError::connection_refused:
        return "no server listens there; check host and port, and whether the server runs";
    case ClientError::connection_failed:
        return "the server cannot be reached; check host, port and network";
    case ClientError::connection_lost:
        return "the connection ended before the response; try again if the request may be repeated";
    case ClientError::truncated:
        return "the connection ended within the response; try again if the request may be repeated";
    case ClientError::timed_out:
        return "the request took too long; try again, or raise the limit in ClientTimeouts";
    case ClientError::tls_failed:
        return "the encrypted connection could not be made; check that the server speaks TLS 1.2 "
               "or 1.3";
    case ClientError::certificate_refused:
        return "the server's certificate is refused; name its authority in "
               "ClientTls::authorities_file, or use the host name of the certificate";
    case ClientError::proxy_failed:
        return "the proxy did not connect to the server; check ClientProxy and the proxy's rules";
    case ClientError::too_many_redirects:
        return "there are too many redirects; the server may be redirecting in a circle";
    case ClientError::body_not_repeatable:
        return "the request's body has to be sent again; use RequestBody::repeatable";
    case ClientError::wrong_length:
        return "the request's body does not have its announced length; announce the right one, or "
               "none";
    case ClientError::body_too_large:
        return "the response's body is larger than the limit; raise the limit, or read it as a "
               "stream";
    case ClientError::invalid_response:
        return "the server's response violates HTTP; check that the port is a web server's";
    case ClientError::undecodable_body:
        return "the response's compression is damaged; turn ClientOptions::compression off to get "
               "the bytes as they are";
    case ClientError::not_enough_memory:
        return "there is not enough memory";
    case ClientError::failed:
        return "the request failed";
    }
    return "unknown error";
}

/// 0 if there is none.
std::errc errc_of(ClientError error) noexcept {
    switch (error) {
    case ClientError::invalid_url:
    case ClientError::invalid_request:
    case ClientError::unusable_certificate:
        return std::errc::invalid_argument;
    case ClientError::unsupported_scheme:
        return std::errc::protocol_not_supported;
    case ClientError::name_not_resolved:
    case ClientError::connection_failed:
        return std::errc::host_unreachable;
    case ClientError::connection_refused:
        return std::errc::connection_refused;
    case ClientError::connection_lost:
    case ClientError::truncated:
        return std::errc::connection_reset;
    case ClientError::timed_out:
        return std::errc::timed_out;
    case ClientError::body_too_large:
        return std::errc::message_size;
    case ClientError::invalid_response:
        return std::errc::protocol_error;
    case ClientError::undecodable_body:
        return std::errc::illegal_byte_sequence;
    case ClientError::not_enough_memory:
        return std::errc::not_enough_memory;
    case ClientError::tls_failed:
    case ClientError::certificate_refused:
    case ClientError::proxy_failed:
    case ClientError::too_many_redirects:
    case ClientError::body_not_repeatable:
    case ClientError::wrong_length:
    case ClientError::failed:
        break;
    }
    return {};
}

class Category final : public std::error_category {
public:
    [[nodiscard]] const char* name() const noexcept override { return "penstock.http.client"; }

    [[nodiscard]] std::string message(int value) const override {
        std::string text = FailureTexts::instance().find(value);
        return text.empty() ? describe(FailureTexts::error_of(value)) : text;
    }

    [[nodiscard]] std::error_condition default_error_condition(int value) const noexcept override {
        return make_error_condition(FailureTexts::error_of(value));
    }

    [[nodiscard]] bool equivalent(int value,
                                  const std::error_condition& condition) const noexcept override {
        const std::errc errc = errc_of(FailureTexts::error_of(value));
        return condition == default_error_condition(value) ||
               (errc != std::errc() && condition == std::make_error_condition(errc));
    }
};

} // namespace

const std::error_category& client_error_category() noexcept {
    static const io::NeverDestroyed<Category> category;
    return *category;
}

namespace detail {

std::error_code failed_request(ClientError error, std::string_view request,
                               std::string_view details) noexcept {
    std::string text;
    try {
        text.append(request).append(": ").append(describe(error));
        if (!details.empty()) {
            text.append(" (").append(details).append(")");
        }
    } catch (...) { // the code alone tells the cause
        text.clear();
    }
    return {FailureTexts::instance().add(error, std::move(text)), client_error_category()};
}

ClientError error_of(const CurlOutcome& outcome) noexcept {
    switch (outcome.code) {
    case CURLE_URL_MALFORMAT:
        return ClientError::invalid_url;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return ClientError::name_not_resolved;
    case CURLE_COULDNT_CONNECT:
        return outcome.os_error == ECONNREFUSED ? ClientError::connection_refused
                                                : ClientError::connection_failed;
    case CURLE_OPERATION_TIMEDOUT:
        return ClientError::timed_out;
    case CURLE_PARTIAL_FILE:
        return ClientError::truncated;
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2_STREAM: // reset by the server
        return ClientError::connection_lost;
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
        return outcome.proxy_status >= 300 ? ClientError::proxy_failed
                                           : ClientError::connection_lost;
    case CURLE_PROXY:
        return ClientError::proxy_failed;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CIPHER:
    case CURLE_USE_SSL_FAILED:
        return ClientError::tls_failed;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
        return ClientError::certificate_refused;
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
        return ClientError::unusable_certificate;
    case CURLE_SEND_FAIL_REWIND:
        return ClientError::body_not_repeatable;
    case CURLE_BAD_CONTENT_ENCODING:
        return ClientError::undecodable_body;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL: // HTTP/0.9: the scheme was checked before
    case CURLE_HTTP2:
        return ClientError::invalid_response;
    case CURLE_OUT_OF_MEMORY:
        return ClientError::not_enough_memory;
    default:
        return ClientError::failed;
    }
}

} // namespace detail
} // namespace penstock::http
