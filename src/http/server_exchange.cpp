#include "http/server_exchange.hpp"

#include <algorithm>
#include <chrono>
#include <expected>
#include <memory>
#include <utility>

#include <penstock/detail/task/deadline.hpp>
#include <penstock/http/access_log.hpp>
#include <penstock/http/errors.hpp>
#include <penstock/http/refusal.hpp>
#include <penstock/http/status_error.hpp>
#include <penstock/http/upgrade.hpp>

#include "http/upgraded_connection.hpp"

namespace penstock::http::detail {

using penstock::detail::time_limit;

void ServerExchange::begin_exchange() noexcept {
    request_.forget_context();
    match_.route = nullptr;
    begin_count();
    body_error_.clear();
    body_size_ = 0;
    body_limit_ = server_.options.limits.body;
    body_waited_ = {};
    keep_alive_ = head_.keep_alive;
    forget_lasting_fields();
    reset_response();
}

bool ServerExchange::find_route(std::string_view method, bool upgrade) {
    if (upgrade) {
        server_.router.find(
            method, target_.path,
            [this](const Route& route) {
                return !route.protocol.empty() && head_.fields.has_token("Upgrade", route.protocol);
            },
            match_);
    } else {
        server_.router.find(
            method, target_.path, [](const Route& route) { return route.protocol.empty(); },
            match_);
    }
    return match_.route != nullptr;
}

bool ServerExchange::passes_gate() {
    try {
        return server_.options.gate(request_, response_);
    } catch (...) {
        (void)answer_failure({}, std::current_exception());
        return false;
    }
}

const Handler* ServerExchange::choose_handler() {
    if (server_.options.gate && !passes_gate()) {
        return nullptr;
    }
    if (head_.method == "CONNECT") {
        answer(Status::not_implemented);
        keep_alive_ = false; // what follows may be the tunnel's (RFC 9110, 9.3.6)
        return nullptr;
    }
    if (head_.expects_other) {
        answer(Status::expectation_failed);
        return nullptr;
    }
    if (!codec::http::is_percent_encoded(target_.path)) {
        answer(Status::bad_request);
        return nullptr;
    }
    const bool found = (head_.upgrade && !has_body() && find_route(head_.method, true)) ||
                       (!asks_tunnel() && (find_route(head_.method, false) ||
                                           (head_.method == "HEAD" && find_route("GET", false))));
    if (!found) {
        if (!asks_tunnel() && head_.method == "OPTIONS" &&
            (match_.path_known || target_.path == "*")) {
            answer(Status::no_content);
            response_.header("Allow", server_.router.allowed(target_.path));
        } else if (asks_tunnel() || !match_.path_known) {
            answer(Status::not_found);
        } else {
            server_.router.find(
                head_.method, target_.path,
                [](const Route& route) { return !route.protocol.empty(); }, match_);
            if (match_.route != nullptr && head_.major_version == 2) {
                match_.route = nullptr; // HTTP/2 has no Upgrade
                answer(Status::not_found);
            } else if (match_.route != nullptr) { // RFC 9110, section 15.5.22
                answer(Status::upgrade_required);
                response_.header("Connection", "Upgrade");
                response_.header("Upgrade", match_.route->protocol);
                match_.route = nullptr;
            } else {
                answer(Status::method_not_allowed);
                response_.header("Allow", server_.router.allowed(target_.path));
            }
        }
        return nullptr;
    }
    const Route& route = *match_.route;
    if (route.options.body_limit != 0) {
        body_limit_ = route.options.body_limit;
    }
    if (head_.body.length > body_limit_) {
        answer(Status::content_too_large);
        return nullptr;
    }
    return &route.handler;
}

void ServerExchange::answer(Status status, std::string_view line) {
    reset_response();
    response_.head_.status = status;
    if (status_has_body()) {
        response_.header("Content-Type", "text/plain; charset=utf-8");
        if (line.empty()) {
            body_text_ = std::to_string(code(status));
            body_text_.append(" ").append(reason(status));
        } else {
            body_text_ = line;
        }
        body_text_ += '\n';
        make_error_page();
    }
}

void ServerExchange::make_error_page() {
    if (!server_.options.error_page) {
        return;
    }
    const Status status = response_.head_.status;
    std::string line = body_text_;
    try {
        server_.options.error_page(response_);
        response_.head_.status = status;
        return;
    } catch (...) {
        report({}, std::current_exception());
    }
    reset_response();
    response_.head_.status = status;
    response_.header("Content-Type", "text/plain; charset=utf-8");
    body_text_ = std::move(line);
}

/// Answers as the handler has said, if it has thrown a `StatusError` in time.
bool ServerExchange::answer_thrown(const std::exception_ptr& thrown) {
    if (response_started()) {
        return false;
    }
    try {
        std::rethrow_exception(thrown);
    } catch (const StatusError& refusal) {
        answer(refusal.status(), refusal.what());
        return true;
    } catch (...) {
        return false;
    }
}

bool ServerExchange::answer_failure(std::error_code error, const std::exception_ptr& thrown) {
    if (thrown) {
        if (answer_thrown(thrown)) {
            return true;
        }
    } else {
        if (error == Error::response_sent && response_started() && framing_ == Framing::none) {
            return true;
        }
        const bool too_large = error == Error::body_too_large;
        if ((too_large || error.category() == message_category()) && error == body_error_) {
            if (!response_started()) {
                answer(too_large ? Status::content_too_large
                                 : Status(codec::http::status_for(
                                       static_cast<MessageError>(error.value()))));
            }
            keep_alive_ = false;
            return !response_started();
        }
        const auto* refusal = dynamic_cast<const RefusalCategory*>(&error.category());
        if (refusal != nullptr && !response_started()) {
            answer(refusal->status_for(error.value()));
            return true;
        }
    }
    report(error, thrown);
    if (response_started()) {
        return false;
    }
    answer(Status::internal_server_error);
    return true;
}

void ServerExchange::report(std::error_code error, const std::exception_ptr& thrown,
                            ServerFailure::Level level) const noexcept {
    server_.report({.method = head_.method,
                    .target = head_.target,
                    .error = error,
                    .exception = thrown,
                    .level = level});
}

void ServerExchange::reset_response() {
    response_.head_.status = Status::ok;
    if (response_.lasting_ != nullptr) {
        response_.head_.headers = *response_.lasting_;
    } else {
        response_.head_.headers.clear();
    }
    body_text_.clear();
    announced_.reset();
    body_left_ = 0;
    body_sent_ = 0;
    framing_ = Framing::undecided;
}

void ServerExchange::forget_lasting_fields() noexcept {
    if (response_.lasting_ != nullptr) {
        response_.lasting_->clear();
    }
}

bool ServerExchange::status_has_body() const noexcept {
    const Status status = response_.head_.status;
    return status != Status::no_content && status != Status::reset_content &&
           status != Status::not_modified;
}

void ServerExchange::choose_framing() noexcept {
    if (answers_head() || !status_has_body()) {
        framing_ = Framing::none;
    } else if (announced_) {
        framing_ = Framing::length;
        body_left_ = *announced_;
    } else if (head_.major_version > 1 || head_.minor_version >= 1) {
        framing_ = Framing::chunked;
    } else {
        framing_ = Framing::until_close;
        keep_alive_ = false;
    }
}

bool ServerExchange::frame_whole_body() noexcept {
    if (answers_head() || !status_has_body()) {
        framing_ = Framing::none;
        if (!announced_) {
            announced_ = body_text_.size();
        }
        return false;
    }
    framing_ = Framing::length;
    body_left_ = body_sent_ = body_text_.size();
    return true;
}

std::optional<std::uint64_t> ServerExchange::length_to_tell() const noexcept {
    if (framing_ == Framing::length) {
        return body_left_;
    }
    return framing_ == Framing::none && answers_head() && status_has_body() ? announced_
                                                                            : std::nullopt;
}

bool ServerExchange::count_part(std::size_t size) noexcept {
    if (framing_ == Framing::length) {
        if (size > body_left_) {
            return false;
        }
        body_left_ -= size;
    }
    body_sent_ += size;
    return true;
}

bool ServerExchange::fits_length(std::uint64_t size) noexcept {
    if (response_started()) {
        return framing_ != Framing::length || size <= body_left_;
    }
    if (!announced_) {
        announced_ = size;
    }
    return size <= *announced_;
}

Task<Result<>> ServerExchange::copy_file(fs::File& file, std::uint64_t offset, std::uint64_t size) {
    if (size == 0 || answers_head() || !status_has_body()) {
        const Result<> written = co_await write_body({});
        co_return written;
    }
    const std::unique_ptr<std::byte[]> buffer =
        std::make_unique_for_overwrite<std::byte[]>(std::min<std::uint64_t>(size, part_size));
    while (size > 0) {
        const MutableBytes into(buffer.get(), std::min<std::uint64_t>(size, part_size));
        const Result<std::size_t> count = co_await file.read_at(offset, into);
        if (!count || *count == 0) {
            co_return failure(count ? make_error_code(Error::wrong_length) : count.error());
        }
        if (const Result<> written = co_await write_body(Bytes(buffer.get(), *count)); !written) {
            co_return written;
        }
        offset += *count;
        size -= *count;
    }
    co_return Result<>();
}

std::chrono::nanoseconds ServerExchange::body_time_left() const noexcept {
    constexpr std::uint64_t most = std::uint64_t{1} << 32; // seconds: more than a century
    const ServerTimeouts& timeouts = server_.options.timeouts;
    const std::uint64_t rate = std::max<std::uint64_t>(timeouts.body_rate, 1);
    const std::chrono::seconds earned(std::min(body_size_ / rate, most));
    const std::chrono::nanoseconds base(
        penstock::detail::nanoseconds_of(time_limit(timeouts.body)));
    const auto whole = base < std::chrono::nanoseconds::max() - earned
                           ? base + earned
                           : std::chrono::nanoseconds::max();
    return whole - body_waited_;
}

std::error_code ServerExchange::error_of(const std::exception_ptr& thrown) noexcept {
    try {
        std::rethrow_exception(thrown);
    } catch (const std::system_error& error) {
        return error.code();
    } catch (const std::bad_expected_access<std::error_code>& access) { // of a `Result`
        return access.error();
    } catch (...) {
        return {};
    }
}

Task<Result<>> ServerExchange::run_upgrade(const Handler& handler) {
    stop_counting();
    Upgrade upgrade(*this, request_);
    Result<> handled;
    std::exception_ptr thrown;
    try {
        handled = co_await handler.upgrade(upgrade);
    } catch (...) {
        thrown = std::current_exception();
    }
    if (thrown || (!handled && handled.error() != std::errc::operation_canceled)) {
        const std::error_code error = handled ? std::error_code() : handled.error();
        report(error, thrown, level_after_upgrade(error, thrown));
        co_return failure(std::errc::io_error);
    }
    co_return handled;
}

void ServerExchange::begin_count() noexcept {
    const bool counted = server_.options.metrics || server_.options.access_log;
    if (counted && !std::exchange(counting_, true)) {
        if (server_.options.metrics) {
            server_.options.metrics->request_begun();
        }
        if (server_.options.access_log) {
            (void)peer(); // while the kernel knows it
        }
        begun_ = io::monotonic_now();
    }
}

void ServerExchange::count_response() noexcept {
    if (!std::exchange(counting_, false)) {
        return;
    }
    if (server_.options.metrics) {
        Metrics::Route* route = match_.route != nullptr ? match_.route->metrics : nullptr;
        (route != nullptr ? route : server_.unrouted)
            ->count(code(response_.status()),
                    std::chrono::nanoseconds(io::monotonic_now() - begun_));
        server_.options.metrics->request_ended();
    }
    log_response(code(response_.status()));
}

void ServerExchange::count_abandoned() noexcept {
    if (!counting_) {
        return;
    }
    constexpr int client_closed = 499; // nginx' number for a request that nobody waits for
    log_response(response_started() ? code(response_.status()) : client_closed);
    stop_counting();
}

void ServerExchange::stop_counting() noexcept {
    if (std::exchange(counting_, false) && server_.options.metrics) {
        server_.options.metrics->request_ended();
    }
}

void ServerExchange::log_response(int status) noexcept {
    if (server_.options.access_log) {
        const auto field = [&](std::string_view name) {
            return head_.fields.find(name).value_or(std::string_view());
        };
        server_.options.access_log->add(
            {.peer = peer(),
             .method = head_.method,
             .target = head_.target,
             .major_version = static_cast<unsigned>(head_.major_version),
             .minor_version = static_cast<unsigned>(head_.minor_version),
             .status = status,
             .body_size = body_sent_,
             .referer = field("Referer"),
             .user_agent = field("User-Agent"),
             .duration = std::chrono::nanoseconds(io::monotonic_now() - begun_)});
    }
}

} // namespace penstock::http::detail
