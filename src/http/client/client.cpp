#include <penstock/http/client.hpp>

#include <utility>

#include <penstock/detail/moved_from.hpp>
#include <penstock/task/unwrap.hpp>

#include "http/client/curl_multi.hpp"
#include "http/client/exchange.hpp"
#include "http/client/failure.hpp"

namespace penstock::http {

namespace {

using detail::CurlMulti;
using detail::Exchange;

// The tasks keep what client and responses share, so the client may end before them.

Task<Result<ClientResponse>> send_request(std::shared_ptr<CurlMulti> multi, ClientRequest request) {
    if (!multi) { // the client was moved from
        co_return failure(std::errc::operation_canceled);
    }
    co_return ClientResponse(
        co_await unwrap(Exchange::start(std::move(multi), std::move(request))));
}

Task<Result<FetchedResponse>> fetch_response(std::shared_ptr<CurlMulti> multi,
                                             ClientRequest request) {
    if (!multi) { // the client was moved from
        co_return failure(std::errc::operation_canceled);
    }
    const std::size_t limit = multi->options().whole_body;
    ClientResponse response(
        co_await unwrap(Exchange::start(std::move(multi), std::move(request), limit)));
    FetchedResponse fetched{.body = co_await unwrap(response.text(limit))};
    fetched.status = response.status();
    fetched.version = response.version();
    fetched.headers = response.headers();
    fetched.trailers = response.trailers();
    fetched.url = response.url();
    fetched.redirects = response.redirects();
    co_return fetched;
}

ClientRequest request_of(Method method, std::string url, RequestBody body, Headers headers) {
    return {.url = std::move(url),
            .method = method,
            .headers = std::move(headers),
            .body = std::move(body)};
}

Task<Result<std::size_t>> read_of_moved_from() {
    co_return failure(std::errc::bad_file_descriptor);
}

} // namespace

Client::Client(ClientOptions options) : multi_(std::make_shared<CurlMulti>(std::move(options))) {}

Client::Client(Client&&) noexcept = default;

Client& Client::operator=(Client&& other) noexcept {
    if (multi_ && multi_ != other.multi_) {
        multi_->close();
    }
    multi_ = std::move(other.multi_);
    return *this;
}

Client::~Client() {
    if (multi_) {
        multi_->close();
    }
}

Task<Result<ClientResponse>> Client::send(ClientRequest request) {
    return send_request(multi_, std::move(request));
}

Task<Result<FetchedResponse>> Client::fetch(ClientRequest request) {
    return fetch_response(multi_, std::move(request));
}

Task<Result<FetchedResponse>> Client::get(std::string url, Headers headers) {
    return fetch(request_of(Method::get, std::move(url), {}, std::move(headers)));
}

Task<Result<FetchedResponse>> Client::head(std::string url, Headers headers) {
    return fetch(request_of(Method::head, std::move(url), {}, std::move(headers)));
}

Task<Result<FetchedResponse>> Client::post(std::string url, RequestBody body, Headers headers) {
    return fetch(request_of(Method::post, std::move(url), std::move(body), std::move(headers)));
}

Task<Result<FetchedResponse>> Client::put(std::string url, RequestBody body, Headers headers) {
    return fetch(request_of(Method::put, std::move(url), std::move(body), std::move(headers)));
}

Task<Result<FetchedResponse>> Client::patch(std::string url, RequestBody body, Headers headers) {
    return fetch(request_of(Method::patch, std::move(url), std::move(body), std::move(headers)));
}

Task<Result<FetchedResponse>> Client::delete_(std::string url, Headers headers) {
    return fetch(request_of(Method::delete_, std::move(url), {}, std::move(headers)));
}

// The response

ClientResponse::ClientResponse(std::unique_ptr<Exchange> exchange) noexcept
    : exchange_(std::move(exchange)) {}
ClientResponse::ClientResponse(ClientResponse&&) noexcept = default;
ClientResponse& ClientResponse::operator=(ClientResponse&&) noexcept = default;
ClientResponse::~ClientResponse() = default;

detail::Exchange& ClientResponse::exchange() const noexcept {
    if (!exchange_) {
        penstock::detail::report_moved_from("an http::ClientResponse");
    }
    return *exchange_;
}

Status ClientResponse::status() const noexcept {
    return exchange().transfer().head().status;
}

const Headers& ClientResponse::headers() const noexcept {
    return exchange().transfer().head().headers;
}

Version ClientResponse::version() const noexcept {
    return exchange().transfer().version();
}

const std::string& ClientResponse::url() const noexcept {
    return exchange().url();
}

std::size_t ClientResponse::redirects() const noexcept {
    return exchange().redirects();
}

const Headers& ClientResponse::trailers() const noexcept {
    return exchange().transfer().trailers();
}

Task<Result<std::size_t>> ClientResponse::read(MutableBytes into) {
    if (!exchange_) {
        return read_of_moved_from();
    }
    return exchange_->read(into);
}

Task<Result<std::string>> ClientResponse::text(std::size_t limit) {
    Result<std::string> content = co_await read_all_text(*this, limit);
    if (!content && content.error() == std::error_code(static_cast<int>(std::errc::message_size),
                                                       std::system_category())) {
        co_return failure(detail::failed_request(ClientError::body_too_large, exchange_->name(),
                                                 std::to_string(limit) + " bytes"));
    }
    co_return content;
}

} // namespace penstock::http
