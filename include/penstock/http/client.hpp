#pragma once

#include <memory>
#include <string>

#include <penstock/http/client_body.hpp>
#include <penstock/http/client_errors.hpp>
#include <penstock/http/client_options.hpp>
#include <penstock/http/client_request.hpp>
#include <penstock/http/client_response.hpp>
#include <penstock/http/headers.hpp>
#include <penstock/result.hpp>
#include <penstock/task/task.hpp>

namespace penstock::http {

namespace detail {
class CurlMulti;
}

/// An HTTP client: HTTP/1.1 and HTTP/2 on libcurl, driven by the event loop.
///
///     http::Client client;
///     const http::FetchedResponse page = co_await unwrap(client.get("https://example.org/"));
///     std::puts(page.body.c_str());
///
/// One client serves any number of tasks at a time. It keeps connections for later requests, and
/// with HTTP/2 concurrent requests to a host share one. A status such as 404 is a response and not
/// an error.
///
/// Errors: a request returns a code of `ClientError`, whose message names the URL and a remedy. An
/// error of the request's body is returned as it is.
///
/// Cancellation: ends the request, and closes its connection unless other requests share it.
///
/// Lifetime: the destructor ends all requests. Their waits return `operation_canceled`, and so does
/// a request that starts later. Tasks of requests may outlive the client.
///
/// Thread safety: while requests run, only on the thread of their loop. A client without a request
/// is not bound to a loop and may be used on another one. Use one client for each loop. A forked
/// child must not use its parent's clients.
///
/// The client is a separate library: link `penstock::http_client`, which needs libcurl 7.87 or
/// newer and zlib.
class Client {
public:
    /// Throws `std::invalid_argument` if an option has no meaning, and `std::bad_alloc`.
    explicit Client(ClientOptions options);
    Client() : Client(ClientOptions()) {}
    Client(Client&&) noexcept;
    Client& operator=(Client&&) noexcept;
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    ~Client();

    /// Sends a request and returns when the head of the response has arrived. The body is read from
    /// the response.
    ///
    /// Follows redirects with status 301, 302, 303, 307 and 308 (RFC 9110, section 15.4). After a
    /// 303, and after a 301 or 302 to a POST, the next request is a GET without a body. A redirect
    /// to another scheme, host or port does not get `credentials` and the fields Authorization,
    /// Cookie and Proxy-Authorization.
    ///
    /// Throws `std::logic_error` if requests run on another loop.
    [[nodiscard]] Task<Result<ClientResponse>> send(ClientRequest request);

    /// Sends a request and reads the whole response. Errors: as `send` and `ClientResponse::read`,
    /// and `ClientError::body_too_large` beyond `ClientOptions::whole_body`.
    [[nodiscard]] Task<Result<FetchedResponse>> fetch(ClientRequest request);

    [[nodiscard]] Task<Result<FetchedResponse>> get(std::string url, Headers headers = {});
    [[nodiscard]] Task<Result<FetchedResponse>> head(std::string url, Headers headers = {});
    [[nodiscard]] Task<Result<FetchedResponse>> post(std::string url, RequestBody body,
                                                     Headers headers = {});
    [[nodiscard]] Task<Result<FetchedResponse>> put(std::string url, RequestBody body,
                                                    Headers headers = {});
    [[nodiscard]] Task<Result<FetchedResponse>> patch(std::string url, RequestBody body,
                                                      Headers headers = {});
    [[nodiscard]] Task<Result<FetchedResponse>> delete_(std::string url, Headers headers = {});

private:
    std::shared_ptr<detail::CurlMulti> multi_;
};

} // namespace penstock::http
