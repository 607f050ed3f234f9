#include "http/client/exchange.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <utility>
#include <variant>

#include <penstock/codec/http/fields.hpp>
#include <penstock/detail/task/budget_operation.hpp>
#include <penstock/detail/task/deadline.hpp>
#include <penstock/task/race.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/task/yield.hpp>

#include "http/client/failure.hpp"

namespace penstock::http::detail {

namespace {

/// How much of a request's body is read at a time.
constexpr std::size_t part_size = std::size_t{64} * 1024;
/// The most that is read of a body nobody asked for. A new connection costs less than more.
constexpr std::size_t max_discarded = std::size_t{64} * 1024;

/// What is said about the connection and the body's framing is the client's own.
constexpr std::array<std::string_view, 7> reserved_fields{
    "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive",
    "Upgrade",        "Proxy-Connection",  "TE"};

std::chrono::milliseconds time_until(io::MonotonicTime deadline) noexcept {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::nanoseconds(deadline - io::monotonic_now()));
    return std::max(left, std::chrono::milliseconds(1)); // 0 would be no limit
}

} // namespace

Exchange::Exchange(std::shared_ptr<CurlMulti> multi, ClientRequest request)
    : multi_(std::move(multi)), request_(std::move(request)),
      timeouts_(request_.timeouts.value_or(multi_->options().timeouts)) {
    if (timeouts_.whole > std::chrono::milliseconds(0)) {
        deadline_ = penstock::detail::deadline_after(timeouts_.whole);
    }
}

std::string Exchange::name() const {
    return std::string(request_.method.name()) + " " + url_.shown;
}

Result<> Exchange::check() const {
    const auto refuse = [&](std::string_view details) {
        return failure(failed_request(ClientError::invalid_request, name(), details));
    };
    if (!codec::http::is_token(request_.method.name())) {
        return refuse("the method is not a token such as GET");
    }
    if (request_.method == Method::connect) {
        return refuse("CONNECT is for proxies, which ClientProxy names");
    }
    for (const std::string_view field : reserved_fields) {
        if (request_.headers.contains(field)) {
            return refuse("the field " + std::string(field) + " is the client's own; remove it");
        }
    }
    if (const auto* bearer = std::get_if<BearerToken>(&request_.credentials)) {
        const auto is_visible = [](char c) { return c > ' ' && c < '\x7f'; };
        if (bearer->token.empty() || !std::ranges::all_of(bearer->token, is_visible)) {
            return refuse(
                "the bearer token is empty, or has a space or another invisible character");
        }
    }
    if (request_.body.moved_from()) {
        return refuse("its body was moved from; make a new one for each request");
    }
    if (request_.method == Method::head && !request_.body.none()) {
        return refuse("a HEAD request has no body");
    }
    return {};
}

Task<Result<std::unique_ptr<Exchange>>> Exchange::start(std::shared_ptr<CurlMulti> multi,
                                                        ClientRequest request,
                                                        std::optional<std::uint64_t> most) {
    auto exchange = std::make_unique<Exchange>(std::move(multi), std::move(request));
    Exchange& self = *exchange;
    self.most_ = most;
    self.url_ = co_await unwrap(parse_url(self.request_.url, self.request_.method.name()));
    co_await unwrap(self.check());
    const std::size_t limit = self.request_.redirects.value_or(self.multi_->options().redirects);
    for (;;) {
        co_await unwrap(self.send());
        const auto location =
            limit > 0 ? redirect_target(self.transfer_->head()) : std::optional<std::string>();
        if (!location) {
            co_return exchange;
        }
        if (self.redirects_ == limit) {
            co_return failure(
                failed_request(ClientError::too_many_redirects, self.name(), *location));
        }
        co_await unwrap(self.discard_body());
        co_await unwrap(self.redirect_to(*location));
    }
}

Result<> Exchange::redirect_to(const std::string& location) {
    const Status status = transfer_->head().status;
    transfer_.reset(); // before what it refers to changes
    Result<ParsedUrl> next = parse_url(location, request_.method.name(), &url_);
    if (!next) {
        return failure(next.error());
    }
    const bool keeps_body = follow(request_, status, next->origin == url_.origin);
    ++redirects_;
    if (keeps_body && body_begun_ && request_.body.source() != nullptr) {
        if (!request_.body.source()->repeatable()) {
            return failure(failed_request(ClientError::body_not_repeatable, name(), {}));
        }
        request_.body.source()->rewind();
    }
    url_ = std::move(*next);
    body_attempt_ = 0;
    body_begun_ = false;
    return {};
}

Task<Result<>> Exchange::send() {
    if (multi_->closed()) {
        co_return failure(std::errc::operation_canceled);
    }
    const RequestBody& body = request_.body;
    ClientTimeouts timeouts = timeouts_;
    if (deadline_ != 0) {
        timeouts.whole = time_until(deadline_);
    }
    const bool own_credentials = !std::holds_alternative<std::monostate>(request_.credentials);
    transfer_ = std::make_unique<Transfer>(
        multi_,
        TransferRequest{.url = own_credentials ? url_.shown : url_.text,
                        .name = name(),
                        .method = request_.method.name(),
                        .headers = &request_.headers,
                        .credentials = &request_.credentials,
                        .timeouts = timeouts,
                        .has_body = !body.none(),
                        .bytes = body.bytes(),
                        .length = body.length(),
                        .repeatable = body.source() != nullptr && body.source()->repeatable(),
                        .most = most_});
    transfer_->start();
    while (!transfer_->has_head() && !transfer_->ended()) {
        if (const Result<> waited = co_await progress(); !waited) {
            co_return waited;
        }
    }
    if (!transfer_->has_head()) {
        co_return failure(transfer_->error());
    }
    co_return Result<>();
}

Task<Result<>> Exchange::progress() {
    if (BodySource* source = request_.body.source(); source != nullptr && transfer_->needs_body()) {
        return progress_with(*source);
    }
    return penstock::detail::to_task(transfer_->wait());
}

Task<void> Exchange::read_part(BodySource& source) {
    read_ = co_await source.read(part_);
}

Task<Result<>> Exchange::progress_with(BodySource& source) {
    if (transfer_->body_attempt() != body_attempt_) {
        source.rewind();
        body_attempt_ = transfer_->body_attempt();
    }
    part_.resize(part_size);
    read_.reset();
    body_begun_ = true;
    bool transfer_changed = false;
    if (source.read_may_be_cancelled()) {
        // A read that loses the race may have taken bytes nevertheless: its outcome is kept.
        const auto first = co_await race(read_part(source), transfer_->wait());
        transfer_changed = first.index() == 1;
    } else {
        co_await read_part(source);
    }
    if (!read_ || (!*read_ && read_->error() == std::errc::operation_canceled)) {
        co_await unwrap(yield()); // ends here if the task is cancelled
        if (!transfer_changed) {  // the source itself is
            transfer_->fail(std::make_error_code(std::errc::operation_canceled));
        }
        co_return Result<>();
    }
    if (!transfer_->needs_body() || transfer_->body_attempt() != body_attempt_) {
        co_return Result<>(); // the part belongs to an attempt that has ended
    }
    if (!*read_) {
        transfer_->fail(read_->error());
    } else {
        part_.resize(**read_);
        transfer_->add_body(part_);
    }
    co_return Result<>();
}

Task<Result<>> Exchange::discard_body() {
    std::array<std::byte, 4096> scratch; // NOLINT(cppcoreguidelines-pro-type-member-init)
    std::size_t total = 0;
    while (total < max_discarded && !transfer_->needs_body()) {
        if (const std::size_t count = transfer_->take(scratch); count != 0) {
            total += count;
        } else if (transfer_->ended()) {
            break;
        } else if (const Result<> waited = co_await transfer_->wait(); !waited) {
            co_return waited;
        }
    }
    co_return Result<>();
}

Task<Result<std::size_t>> Exchange::read(MutableBytes into) {
    co_await penstock::detail::BudgetOperation();
    if (into.empty()) {
        co_return 0;
    }
    for (;;) {
        if (const std::size_t count = transfer_->take(into); count != 0) {
            co_return count;
        }
        if (transfer_->ended()) {
            if (transfer_->error()) {
                co_return failure(transfer_->error());
            }
            co_return 0;
        }
        if (const Result<> waited = co_await progress(); !waited) {
            co_return failure(waited.error());
        }
    }
}

} // namespace penstock::http::detail
