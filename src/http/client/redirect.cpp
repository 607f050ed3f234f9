#include "http/client/redirect.hpp"

#include <algorithm>
#include <cstddef>
#include <new>

#include "http/client/curl_handles.hpp"
#include "http/client/failure.hpp"

namespace penstock::http::detail {

namespace {

/// Empty if the URL has no such part.
std::string part_of(CURLU* url, CURLUPart part, unsigned flags = 0) {
    char* text = nullptr;
    if (curl_url_get(url, part, &text, flags) != CURLUE_OK) {
        return {};
    }
    const CurlText owner(text);
    return text;
}

/// For the message about a URL that cannot be parsed.
std::string without_credentials(const std::string& text) {
    const std::size_t slashes = text.find("//");
    const std::size_t authority = slashes == std::string::npos ? 0 : slashes + 2;
    const std::size_t end = std::min(text.find_first_of("/?#", authority), text.size());
    const std::size_t at = text.substr(0, end).rfind('@');
    if (at == std::string::npos || at < authority) {
        return text;
    }
    return text.substr(0, authority) + text.substr(at + 1);
}

} // namespace

Result<ParsedUrl> parse_url(const std::string& text, std::string_view method,
                            const ParsedUrl* base) {
    const UrlHandle handle(curl_url());
    if (!handle) {
        throw std::bad_alloc();
    }
    CURLU* url = handle.get();
    const auto refuse = [&](ClientError error, std::string_view details) {
        return failure(
            failed_request(error, std::string(method) + " " + without_credentials(text), details));
    };
    CURLUcode code = CURLUE_OK;
    if (base != nullptr) {
        code = curl_url_set(url, CURLUPART_URL, base->text.c_str(), 0);
    }
    if (code == CURLUE_OK && text.find('\0') != std::string::npos) {
        code = CURLUE_MALFORMED_INPUT;
    }
    if (code == CURLUE_OK) {
        // Servers send spaces and other bytes in Location; a program's own URL must be valid.
        const unsigned flags = CURLU_NON_SUPPORT_SCHEME | (base != nullptr ? CURLU_URLENCODE : 0U);
        code = curl_url_set(url, CURLUPART_URL, text.c_str(), flags);
    }
    if (code != CURLUE_OK) {
        return refuse(ClientError::invalid_url, curl_url_strerror(code));
    }
    const std::string scheme = part_of(url, CURLUPART_SCHEME);
    if (scheme != "http" && scheme != "https") {
        return refuse(ClientError::unsupported_scheme, {});
    }
    curl_url_set(url, CURLUPART_FRAGMENT, nullptr, 0);
    ParsedUrl parsed{.text = part_of(url, CURLUPART_URL)};
    parsed.origin = scheme + "://" + part_of(url, CURLUPART_HOST) + ":" +
                    part_of(url, CURLUPART_PORT, CURLU_DEFAULT_PORT);
    curl_url_set(url, CURLUPART_USER, nullptr, 0);
    curl_url_set(url, CURLUPART_PASSWORD, nullptr, 0);
    curl_url_set(url, CURLUPART_OPTIONS, nullptr, 0);
    parsed.shown = part_of(url, CURLUPART_URL);
    return parsed;
}

std::optional<std::string> redirect_target(const ResponseHead& head) {
    switch (head.status) {
    case Status::moved_permanently:
    case Status::found:
    case Status::see_other:
    case Status::temporary_redirect:
    case Status::permanent_redirect:
        break;
    default:
        return std::nullopt;
    }
    const auto location = head.headers.find("Location");
    return location && !location->empty() ? std::optional<std::string>(*location) : std::nullopt;
}

bool follow(ClientRequest& request, Status status, bool same_origin) {
    if (!same_origin) {
        request.credentials = {};
        for (const char* name : {"Authorization", "Cookie", "Proxy-Authorization", "Host"}) {
            request.headers.remove(name);
        }
    }
    const bool to_get = (status == Status::see_other && request.method != Method::head) ||
                        ((status == Status::moved_permanently || status == Status::found) &&
                         request.method == Method::post);
    if (to_get) {
        request.method = Method::get;
        request.body = {};
        for (const char* name : {"Content-Type", "Content-Encoding", "Content-Language",
                                 "Content-Location", "Expect"}) {
            request.headers.remove(name);
        }
    }
    return !to_get;
}

} // namespace penstock::http::detail
