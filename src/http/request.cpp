#include <penstock/http/request.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include <penstock/codec/http/target.hpp>

#include "http/exchange.hpp"
#include "http/request_context.hpp"

namespace penstock::http {

Request::Request(detail::Exchange& exchange) noexcept : exchange_(exchange) {}

Request::~Request() = default;

void Request::drop_context() noexcept {
    context_.reset();
}

detail::RequestContext& Request::context() const {
    if (context_ == nullptr) {
        context_ = std::make_unique<detail::RequestContext>();
    }
    return *context_;
}

bool Request::client_gone() const noexcept {
    return client_gone_;
}

void Request::on_close(std::function<void()> function) {
    if (client_gone_) {
        function();
    } else {
        context().on_close.push_back(std::move(function));
    }
}

void Request::tell_client_gone() noexcept {
    client_gone_ = true;
    if (context_ != nullptr) {
        for (const std::function<void()>& each : std::exchange(context_->on_close, {})) {
            each();
        }
    }
}

const RequestHead& Request::head() const noexcept {
    return exchange_.head();
}

Method Request::method() const noexcept {
    return Method(head().method);
}

std::string_view Request::target() const noexcept {
    return head().target;
}

std::string_view Request::path() const noexcept {
    return exchange_.target().path;
}

std::string_view Request::query() const noexcept {
    return exchange_.target().query;
}

std::string_view Request::host() const noexcept {
    const std::string_view authority = exchange_.target().authority;
    return authority.empty() ? head().host : authority;
}

std::string Request::parameter(std::string_view name) const {
    const detail::Router::Match& match = exchange_.match();
    if (match.route != nullptr) {
        const auto& names = match.route->parameters;
        for (std::size_t i = 0; i < names.size(); ++i) {
            if (names[i] == name) {
                return codec::http::percent_decode(match.values[i]);
            }
        }
    }
    return {};
}

std::optional<std::string> Request::query_parameter(std::string_view name) const {
    return codec::http::find_parameter(query(), name);
}

Result<net::Endpoint> Request::peer_endpoint() const {
    const net::StreamSocket* const socket = exchange_.stream().transport();
    return socket != nullptr ? net::Endpoint::of_peer(socket->native_handle())
                             : failure(std::errc::not_supported);
}

Result<net::Endpoint> Request::local_endpoint() const {
    const net::StreamSocket* const socket = exchange_.stream().transport();
    return socket != nullptr ? net::Endpoint::of_socket(socket->native_handle())
                             : failure(std::errc::not_supported);
}

bool Request::has_body() const noexcept {
    return head().body.kind != codec::http::BodyFraming::Kind::none;
}

std::optional<std::uint64_t> Request::content_length() const noexcept {
    if (head().body.kind == codec::http::BodyFraming::Kind::chunked) {
        return std::nullopt;
    }
    return head().body.length;
}

Task<Result<std::size_t>> Request::read(MutableBytes into) {
    if (into.empty()) {
        co_return 0;
    }
    const Result<Bytes> part = co_await exchange_.receive_body(into.size());
    if (!part) {
        co_return failure(part.error());
    }
    if (!part->empty()) {
        std::memcpy(into.data(), part->data(), part->size());
    }
    co_return part->size();
}

Task<Result<Bytes>> Request::receive() {
    return exchange_.receive_body(SIZE_MAX);
}

Task<Result<std::string>> Request::text() {
    std::string text;
    text.reserve(std::min<std::uint64_t>(content_length().value_or(0), 65536));
    for (;;) {
        const Result<Bytes> part = co_await receive();
        if (!part) {
            co_return failure(part.error());
        }
        if (part->empty()) {
            co_return text;
        }
        text.append(reinterpret_cast<const char*>(part->data()), part->size());
    }
}

Fields Request::trailers() const noexcept {
    return exchange_.trailers();
}

} // namespace penstock::http
