#include <penstock/http/request.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <utility>

#include <sys/random.h>

#include <penstock/codec/http/target.hpp>

#include "http/request_context.hpp"
#include "http/server_exchange.hpp"

namespace penstock::http {

namespace {

/// From a stranger, for logs and for the fields of other requests.
bool is_id(std::string_view text) noexcept {
    constexpr std::size_t most = 128;
    constexpr std::string_view marks = "-._~+/=:@";
    return !text.empty() && text.size() <= most && std::ranges::all_of(text, [&](char each) {
        return (each >= '0' && each <= '9') || (each >= 'a' && each <= 'z') ||
               (each >= 'A' && each <= 'Z') || marks.contains(each);
    });
}

std::string random_id() {
    constexpr std::string_view digits = "0123456789abcdef";
    std::array<std::uint8_t, 16> bytes{};
    ssize_t size = -1;
    do {
        size = ::getrandom(bytes.data(), bytes.size(), 0);
    } while (size < 0 && errno == EINTR);
    if (size != static_cast<ssize_t>(bytes.size())) {
        throw std::system_error(errno, std::system_category(), "http::Request: getrandom");
    }
    std::string text;
    text.reserve(2 * bytes.size());
    for (const std::uint8_t each : bytes) {
        text += digits[each / 16];
        text += digits[each % 16];
    }
    return text;
}

} // namespace

Request::Request(detail::ServerExchange& exchange) noexcept : exchange_(exchange) {}

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

std::optional<Encryption> Request::encryption() const {
    return exchange_.stream().encryption();
}

std::optional<VerifiedPeer> Request::client_certificate() const {
    return exchange_.stream().verified_peer();
}

std::string_view Request::id() const {
    std::string& id = context().id;
    if (id.empty()) {
        const std::string& field = exchange_.options().request_id_field;
        const std::string_view sent =
            field.empty() ? std::string_view() : header(field).value_or(std::string_view());
        id = is_id(sent) ? std::string(sent) : random_id();
    }
    return id;
}

std::optional<std::chrono::steady_clock::time_point> Request::deadline() const noexcept {
    return context_ != nullptr ? context_->deadline : std::nullopt;
}

void Request::tell_deadline(std::chrono::steady_clock::time_point deadline) {
    std::optional<std::chrono::steady_clock::time_point>& known = context().deadline;
    known = known ? std::min(*known, deadline) : deadline;
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
    return exchange_.peer();
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
