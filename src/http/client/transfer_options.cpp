// The options of libcurl's easy interface for one transfer.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

#include <penstock/codec/http/fields.hpp>

#include "http/client/transfer.hpp"

namespace penstock::http::detail {

namespace {

/// libcurl calculates with these numbers. What it cannot hold (24 days, or 68 years) is cut.
long number_of(std::int64_t count) noexcept {
    return static_cast<long>(std::min<std::int64_t>(count, std::numeric_limits<int>::max()));
}

long milliseconds_of(std::chrono::milliseconds time) noexcept {
    return number_of(time.count());
}

} // namespace

template <typename Value> void Transfer::set(CURLoption option, Value value) {
    const CURLcode code = curl_easy_setopt(easy_.get(), option, value);
    if (code == CURLE_OUT_OF_MEMORY) {
        throw std::bad_alloc();
    }
    if (code != CURLE_OK) {
        throw std::logic_error(std::string("http::Client: this libcurl refuses an option: ") +
                               curl_easy_strerror(code));
    }
}

void Transfer::configure() {
    set(CURLOPT_PRIVATE, static_cast<void*>(this));
    set(CURLOPT_ERRORBUFFER, details_.data());
    set(CURLOPT_NOSIGNAL, 1L);
    // A cancelled request must not block until a name was resolved.
    set(CURLOPT_QUICK_EXIT, 1L);
    set(CURLOPT_SHARE, multi_->share());
    set(CURLOPT_URL, request_.url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_HEADERFUNCTION, &on_header);
    set(CURLOPT_HEADERDATA, static_cast<void*>(this));
    set(CURLOPT_WRITEFUNCTION, &on_data);
    set(CURLOPT_WRITEDATA, static_cast<void*>(this));
    set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    configure_method();
    configure_connection();
    configure_tls();
    configure_proxy();
    configure_credentials();
    configure_fields();
}

void Transfer::configure_method() {
    // libcurl 7.88 asks whether it may send a body (Expect), whatever its size, unless it has the
    // bytes of a POST. A small body goes with the head: asking costs a round trip, or a second with
    // a server that does not answer. A larger one would be sent apart, and be lost if a kept
    // connection ends in between: libcurl then tries again only while it waits for an answer.
    constexpr std::size_t small_body = std::size_t{64} * 1024;
    const std::string_view method = request_.method;
    if (request_.bytes != nullptr && !request_.bytes->empty() &&
        request_.bytes->size() < small_body) {
        set(CURLOPT_POST, 1L);
        set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.bytes->size()));
        set(CURLOPT_POSTFIELDS, request_.bytes->data());
    } else if (request_.has_body || method == "POST" || method == "PUT" || method == "PATCH") {
        set(CURLOPT_UPLOAD, 1L);
        set(CURLOPT_READFUNCTION, &on_read);
        set(CURLOPT_READDATA, static_cast<void*>(this));
        set(CURLOPT_SEEKFUNCTION, &on_seek);
        set(CURLOPT_SEEKDATA, static_cast<void*>(this));
        const std::uint64_t nothing = 0;
        const std::optional<std::uint64_t> length = request_.has_body ? request_.length : nothing;
        set(CURLOPT_INFILESIZE_LARGE, length ? static_cast<curl_off_t>(*length) : curl_off_t{-1});
        output_ended_ = !request_.has_body;
    } else if (method == "HEAD") {
        set(CURLOPT_NOBODY, 1L);
    } else {
        set(CURLOPT_HTTPGET, 1L);
    }
    set(CURLOPT_CUSTOMREQUEST, std::string(method).c_str());
}

void Transfer::configure_connection() {
    const ClientOptions& options = multi_->options();
    const ClientTimeouts& limits = request_.timeouts;
    switch (options.protocol) {
    case ClientProtocol::negotiate:
        set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_2TLS});
        break;
    case ClientProtocol::http_1_1:
        set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
        break;
    case ClientProtocol::http_2_unasked:
        set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE});
        // libcurl 7.88 fails with the second request on such a connection. Later ones use it again.
        if (curl_version_info(CURLVERSION_NOW)->version_num < 0x080100) {
            set(CURLOPT_FORBID_REUSE, 1L);
        }
        break;
    }
    // Waits for a connection whose version is not known yet, rather than to open another one.
    const bool may_share =
        options.protocol == ClientProtocol::http_2_unasked ||
        (options.protocol == ClientProtocol::negotiate && request_.url.starts_with("https:"));
    set(CURLOPT_PIPEWAIT, may_share ? 1L : 0L);
    set(CURLOPT_MAXAGE_CONN, number_of(options.idle_connection_age.count()));
    // With HTTP/2, libcurl 7.88 hangs after a head that is larger.
    set(CURLOPT_BUFFERSIZE, (may_share ? 64L : 32L) * 1024);
    set(CURLOPT_OPENSOCKETFUNCTION, &CurlMulti::open_socket);
    set(CURLOPT_OPENSOCKETDATA, static_cast<void*>(multi_.get()));
    set(CURLOPT_CLOSESOCKETFUNCTION, &CurlMulti::close_socket);
    set(CURLOPT_CLOSESOCKETDATA, static_cast<void*>(multi_.get()));
    set(CURLOPT_PREREQFUNCTION, &on_connected);
    set(CURLOPT_PREREQDATA, static_cast<void*>(this));
    // 0 would be libcurl's own limit of 300 s.
    constexpr std::chrono::milliseconds a_month = std::chrono::hours(24 * 30);
    using std::chrono::milliseconds;
    set(CURLOPT_CONNECTTIMEOUT_MS,
        milliseconds_of(limits.connect > milliseconds(0) ? limits.connect : a_month));
    set(CURLOPT_TIMEOUT_MS, milliseconds_of(limits.whole));
    // Rejected: libcurl's own CURLOPT_LOW_SPEED_TIME. It takes the mean of the last 5 s, so it is
    // late by as much once a byte has arrived.
    if (limits.idle > milliseconds(0)) {
        set(CURLOPT_XFERINFOFUNCTION, &on_progress);
        set(CURLOPT_XFERINFODATA, static_cast<void*>(this));
        set(CURLOPT_NOPROGRESS, 0L);
    }
}

void Transfer::configure_tls() {
    const ClientTls& tls = multi_->options().tls;
    set(CURLOPT_SSLVERSION, long{CURL_SSLVERSION_TLSv1_2});
    for (const CURLoption option : {CURLOPT_SSL_VERIFYPEER, CURLOPT_PROXY_SSL_VERIFYPEER}) {
        set(option, tls.verify ? 1L : 0L);
    }
    for (const CURLoption option : {CURLOPT_SSL_VERIFYHOST, CURLOPT_PROXY_SSL_VERIFYHOST}) {
        set(option, tls.verify ? 2L : 0L);
    }
    if (!tls.authorities_file.empty()) {
        set(CURLOPT_CAINFO, tls.authorities_file.c_str());
        set(CURLOPT_PROXY_CAINFO, tls.authorities_file.c_str());
    }
    if (!tls.certificate_chain_file.empty()) {
        const std::string& key =
            tls.private_key_file.empty() ? tls.certificate_chain_file : tls.private_key_file;
        set(CURLOPT_SSLCERT, tls.certificate_chain_file.c_str());
        set(CURLOPT_SSLKEY, key.c_str());
        set(CURLOPT_KEYPASSWD, tls.private_key_password.c_str());
    }
}

void Transfer::configure_proxy() {
    const ClientProxy& proxy = multi_->options().proxy;
    // An empty text turns the environment off.
    if (!proxy.url.empty() || !proxy.from_environment) {
        set(CURLOPT_PROXY, proxy.url.c_str());
    }
    if (!proxy.except.empty() || !proxy.from_environment) {
        set(CURLOPT_NOPROXY, proxy.except.c_str());
    }
}

void Transfer::configure_credentials() {
    if (const auto* basic = std::get_if<BasicCredentials>(request_.credentials)) {
        set(CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
        set(CURLOPT_USERNAME, basic->user.c_str());
        set(CURLOPT_PASSWORD, basic->password.c_str());
    } else if (const auto* bearer = std::get_if<BearerToken>(request_.credentials)) {
        set(CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
        set(CURLOPT_XOAUTH2_BEARER, bearer->token.c_str());
    }
}

void Transfer::configure_fields() {
    const ClientOptions& options = multi_->options();
    const Headers& headers = *request_.headers;
    asks_for_coding_ =
        options.compression && !headers.contains("Accept-Encoding") && !headers.contains("Range");
    if (asks_for_coding_) {
        add_line((std::string("Accept-Encoding: ") + ContentDecoder::accepted).c_str());
    }
    if (!options.user_agent.empty()) {
        set(CURLOPT_USERAGENT, options.user_agent.c_str());
    }
    if (options.cookies) {
        set(CURLOPT_COOKIEFILE, ""); // turns the share's cookies on
    }
    std::string line;
    for (const Field& field : headers) {
        line.assign(field.name);
        if (field.value.empty()) {
            line.append(";"); // libcurl's way to write an empty field
        } else {
            line.append(": ").append(field.value);
        }
        add_line(line.c_str());
    }
    if (!headers.contains("Content-Type")) {
        add_line("Content-Type:"); // leaves out what libcurl adds to a POST
    }
    set(CURLOPT_HTTPHEADER, fields_.get());
}

void Transfer::add_line(const char* line) {
    curl_slist* longer = curl_slist_append(fields_.get(), line);
    if (longer == nullptr) {
        throw std::bad_alloc();
    }
    (void)fields_.release();
    fields_.reset(longer);
}

} // namespace penstock::http::detail
