#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <penstock/http/client_body.hpp>
#include <penstock/http/client_options.hpp>
#include <penstock/http/headers.hpp>
#include <penstock/http/method.hpp>

namespace penstock::http {

/// A request of a `Client`:
///
///     co_await client.send({.url = "https://example.org/items",
///                           .method = http::Method::post,
///                           .headers = {{"Content-Type", "application/json"}},
///                           .body = "{}"});
struct ClientRequest {
    /// An absolute URL of http or https. A user name and password in it are `BasicCredentials`,
    /// unless `credentials` is set. A fragment is not sent.
    std::string url{};
    /// The text of a method other than the named ones must outlive the request.
    Method method = Method::get;
    /// The client sets Content-Length, Transfer-Encoding, Connection and the like itself: a request
    /// with one of them fails with `ClientError::invalid_request`.
    Headers headers{};
    RequestBody body{};
    Credentials credentials{};
    /// These replace `ClientOptions::timeouts` and `ClientOptions::redirects` for this request.
    std::optional<ClientTimeouts> timeouts{};
    std::optional<std::size_t> redirects{};
};

} // namespace penstock::http
