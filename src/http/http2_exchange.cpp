#include "http/http2_exchange.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>
#include <system_error>

#include <penstock/detail/task/budget_operation.hpp>
#include <penstock/http/errors.hpp>
#include <penstock/task/timeout.hpp>

#include "codec/http/authority.hpp"
#include "codec/http/characters.hpp"
#include "codec/text.hpp"
#include "http/connection.hpp"
#include "http/http2_connection.hpp"
#include "http/response_fields.hpp"

namespace penstock::http::detail {

namespace {

using codec::http::BodyFraming;
using codec::http::equal_ignoring_case;

/// Appends to a text that has room, and returns where it stands.
std::string_view kept_in(std::string& text, std::string_view added) {
    const std::size_t begin = text.size();
    text.append(added);
    return std::string_view(text).substr(begin);
}

std::size_t size_of(std::span<const Field> fields) noexcept {
    std::size_t size = 0;
    for (const Field& field : fields) {
        size += field.name.size() + field.value.size() + 2; // 2 for a cookie's separator
    }
    return size;
}

/// Whether a head of HTTP/1.1 could say the same (RFC 9112, section 3.2): the handlers and those
/// behind them see no difference.
bool is_of_http1(const RequestHead& head, std::string_view scheme) noexcept {
    using namespace codec::http;
    if (!is_token(head.method)) {
        return false;
    }
    if (head.method == "CONNECT") {
        return is_authority(head.host, Port::required);
    }
    return (equal_ignoring_case(scheme, "http") || equal_ignoring_case(scheme, "https")) &&
           is_authority(head.host, Port::optional) && consists_of(head.target, target_character) &&
           (head.target.starts_with('/') || (head.target == "*" && head.method == "OPTIONS"));
}

} // namespace

AnyStream& Http2Exchange::stream() noexcept {
    return connection_.carrier().stream();
}

Result<net::Endpoint> Http2Exchange::peer() noexcept {
    return connection_.carrier().peer();
}

const Handler* Http2Exchange::begin(codec::http2::Stream& stream) {
    stream_ = &stream;
    stream.user = this;
    canceller_.emplace();
    request_ended_ = false; // until what has arrived is taken
    stream_error_.clear();
    late_ = continue_due_ = handed_over_ = sending_ = false;
    given_begin_ = consumable_ = 0;
    const bool too_large = stream.head_too_large();
    if (too_large || !adopt_head(connection_.session().head(stream))) {
        const std::string_view method = too_large ? std::string_view() : head_.method;
        head_ = {};
        head_.method = method; // a response to HEAD has no body
        target_ = {};
        begin_exchange();
        answer(too_large ? Status::request_header_fields_too_large : Status::bad_request);
        return nullptr;
    }
    begin_exchange();
    continue_due_ = head_.expect_continue && has_body();
    return choose_handler();
}

bool Http2Exchange::adopt_head(std::span<const Field> fields) {
    head_ = {};
    head_.major_version = 2;
    head_.minor_version = 0;
    head_text_.clear();
    head_text_.reserve(size_of(fields) + std::string_view("hostcookie").size());
    fields_.clear();
    std::string_view authority;
    std::string_view protocol; // of an extended CONNECT
    std::string_view scheme;
    for (const Field& field : fields) { // pseudo-fields come first, as the library has checked
        if (field.name == ":method") {
            head_.method = kept_in(head_text_, field.value);
        } else if (field.name == ":path") {
            head_.target = kept_in(head_text_, field.value);
        } else if (field.name == ":authority") {
            authority = kept_in(head_text_, field.value);
            fields_.push_back({.name = kept_in(head_text_, "host"), .value = authority});
        } else if (field.name == ":protocol") {
            protocol = kept_in(head_text_, field.value);
        } else if (field.name == ":scheme") {
            scheme = field.value;
        }
    }
    if (!protocol.empty()) {
        adopt_tunnel(protocol);
    }
    head_.host = authority;
    std::size_t cookies = 0;
    std::optional<std::uint64_t> length;
    for (const Field& field : fields) {
        const std::string_view value = codec::trimmed(field.value);
        if (field.name == "cookie") { // may have been split (RFC 9113, section 8.2.3)
            ++cookies;
            continue;
        }
        if (field.name == "host") {
            if (!authority.empty() && !equal_ignoring_case(authority, value)) {
                return false;
            }
            if (!authority.empty()) {
                continue;
            }
        }
        if (field.name.starts_with(':') ||
            (head_.upgrade && field.name == "sec-websocket-key")) { // RFC 8441, section 5
            continue;
        }
        fields_.push_back(
            {.name = kept_in(head_text_, field.name), .value = kept_in(head_text_, value)});
        if (field.name == "host") {
            head_.host = fields_.back().value;
        } else if (field.name == "content-length") {
            length = codec::number_in(value);
        } else if (field.name == "expect") {
            std::string_view list = value;
            for (auto each = codec::http::next_list_element(list); !each.empty();
                 each = codec::http::next_list_element(list)) {
                const bool asks = equal_ignoring_case(each, "100-continue");
                head_.expect_continue |= asks;
                head_.expects_other |= !asks;
            }
        }
    }
    if (cookies > 0) {
        const std::string_view name = kept_in(head_text_, "cookie");
        const std::size_t begin = head_text_.size();
        for (const Field& field : fields) {
            if (field.name == "cookie") {
                head_text_.append(head_text_.size() == begin ? "" : "; ").append(field.value);
            }
        }
        fields_.push_back({.name = name, .value = std::string_view(head_text_).substr(begin)});
    }
    head_.fields = Fields(fields_);
    if (!head_.upgrade && (!stream_->request_ended() || !stream_->received.empty())) {
        head_.body = length ? BodyFraming{.kind = BodyFraming::Kind::length, .length = *length}
                            : BodyFraming{.kind = BodyFraming::Kind::chunked};
        if (length == 0) {
            head_.body.kind = BodyFraming::Kind::none;
        }
    }
    target_ = codec::http::split_target(head_.target);
    return is_of_http1(head_, scheme);
}

/// What a handler of an upgrade expects of HTTP/1.1 (RFC 8441, section 5).
void Http2Exchange::adopt_tunnel(std::string_view protocol) {
    head_.method = "GET";
    head_.upgrade = true;
    fields_.push_back({.name = "upgrade", .value = protocol});
    fields_.push_back({.name = "connection", .value = "upgrade"});
    if (equal_ignoring_case(protocol, "websocket")) { // the answer to it is not sent
        fields_.push_back({.name = "sec-websocket-key", .value = "dGhlIHNhbXBsZSBub25jZQ=="});
    }
}

void Http2Exchange::begin_tunnel() {
    auto tunnel = std::make_shared<Http2Tunnel>(connection_, *stream_);
    std::string head = "GET ";
    head.append(head_.target).append(" HTTP/1.1\r\n");
    for (const Field& field : head_.fields) {
        head.append(field.name).append(": ").append(field.value).append("\r\n");
    }
    head += "\r\n";
    tunnelled_ = std::make_unique<Tunnelled>(Tunnelled{
        .tunnel = tunnel, .stream = AnyStream(Http2TunnelStream(tunnel)), .head = std::move(head)});
}

Task<void> Http2Exchange::run_tunnel(const Handler& handler) {
    (void)co_await run_upgrade(handler);
    forget_context();
    tunnelled_->tunnel->end();
    tunnelled_.reset();
}

void Http2Exchange::take_received() {
    if (tunnelled_ != nullptr) {
        tunnelled_->tunnel->take_received();
        return;
    }
    if (received_.empty()) {
        std::swap(received_, stream_->received);
    } else {
        received_.append(stream_->received.bytes());
    }
    stream_->received.clear();
    if (!request_ended_ && stream_->request_ended()) {
        keep_trailers();
        request_ended_ = true;
    }
    arrived_.set();
    moved_.set();
}

void Http2Exchange::keep_trailers() {
    const std::span<const Field> fields = connection_.session().trailers(*stream_);
    trailer_text_.clear();
    trailer_text_.reserve(size_of(fields));
    trailers_.clear();
    for (const Field& field : fields) {
        const std::string_view name = kept_in(trailer_text_, field.name);
        trailers_.push_back({.name = name, .value = kept_in(trailer_text_, field.value)});
    }
}

void Http2Exchange::lose_stream() noexcept {
    stream_ = nullptr;
    stream_error_ = std::make_error_code(std::errc::connection_reset);
    arrived_.set();
    moved_.set();
    tell_client_gone();
    if (tunnelled_ != nullptr) { // its handler reads the end
        tunnelled_->tunnel->lose_stream();
        return;
    }
    if (match_.route == nullptr ||
        match_.route->options.when_client_goes == WhenClientGoes::cancel) {
        canceller().cancel();
    }
}

void Http2Exchange::end() noexcept {
    count_abandoned();
    if (stream_ != nullptr) {
        stream_->user = nullptr;
        stream_ = nullptr;
    }
    for (std::string* text : {&head_text_, &trailer_text_, &body_text_}) {
        if (text->capacity() > kept_memory) {
            std::string().swap(*text); // a move keeps the memory of what is short
        }
    }
    trailers_.clear();
    received_.clear(kept_memory);
    given_.clear(kept_memory);
}

Task<Result<Bytes>> Http2Exchange::receive_body(std::size_t most) {
    for (;;) {
        if (body_error_) {
            co_return failure(body_error_);
        }
        if (consumable_ > 0 && stream_ != nullptr) {
            connection_.session().consume(*stream_, consumable_);
            connection_.send_soon();
        }
        consumable_ = 0;
        if (given_begin_ == given_.size() && !received_.empty()) {
            std::swap(given_, received_);
            received_.clear();
            given_begin_ = 0;
        }
        if (given_begin_ < given_.size()) {
            const std::size_t size = std::min(most, given_.size() - given_begin_);
            body_size_ += size;
            if (body_size_ > body_limit_) {
                body_error_ = Error::body_too_large;
                continue;
            }
            const Bytes part = given_.bytes().subspan(given_begin_, size);
            given_begin_ += size;
            consumable_ = size;
            (void)co_await penstock::detail::BudgetOperation(); // a window holds many small parts
            co_return part;
        }
        if (request_ended_) {
            co_return Bytes();
        }
        if (stream_ == nullptr) {
            body_error_ = stream_error_;
            continue;
        }
        if (const Result<> arrived = co_await receive_more(); !arrived) {
            co_return failure(arrived.error());
        }
    }
}

/// Waits for more of the body, within the time that it may take.
Task<Result<>> Http2Exchange::receive_more() {
    if (std::exchange(continue_due_, false) && !response_started()) {
        connection_.session().send_interim(*stream_, code(Status::continue_), {});
        connection_.send_soon();
    }
    arrived_.reset();
    const io::MonotonicTime begin = io::monotonic_now();
    const Result<> arrived = co_await timeout(body_time_left(), arrived_.wait());
    body_waited_ += std::chrono::nanoseconds(io::monotonic_now() - begin);
    if (!arrived && arrived.error() == std::errc::timed_out) {
        late_ = true;
        canceller().cancel();
        co_return failure(std::errc::operation_canceled);
    }
    co_return arrived;
}

void Http2Exchange::respond(bool ends) {
    const ResponseHead& head = response_head();
    response_fields_.clear();
    bool dated = false;
    for (const Field field : head.headers) {
        const FieldKind kind = kind_of(field.name);
        dated = dated || kind == FieldKind::date;
        if (kind == FieldKind::other || kind == FieldKind::date) {
            response_fields_.push_back(field);
        }
    }
    if (!dated) {
        response_fields_.push_back({.name = "date", .value = date_text()});
    }
    if (!server_.options.server_name.empty()) {
        response_fields_.push_back({.name = "server", .value = server_.options.server_name});
    }
    std::array<char, 20> digits{};
    if (const std::optional<std::uint64_t> length = length_to_tell()) {
        const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), *length).ptr;
        response_fields_.push_back({.name = "content-length", .value = {digits.data(), end}});
    }
    connection_.session().respond(*stream_, code(head.status), response_fields_, ends);
}

void Http2Exchange::start_body() {
    choose_framing();
    respond(false); // the end of a stream would end a handler that has more to do
}

/// Waits until at most this much waits for the client's window.
Task<Result<>> Http2Exchange::until_unsent(std::size_t most) {
    while (stream_ != nullptr && stream_->unsent() > most) {
        moved_.reset();
        if (const Result<> moved = co_await moved_.wait(); !moved) {
            co_return moved;
        }
    }
    co_return stream_ != nullptr ? Result<>() : failure(stream_error_);
}

Task<Result<>> Http2Exchange::write_body(Bytes part) {
    if (stream_ == nullptr || stream_error_) { // also after a write that was cut short
        co_return failure(stream_error_);
    }
    if (!body_text_.empty()) {
        co_return failure(Error::response_sent);
    }
    if (!response_started()) {
        start_body();
        connection_.send_soon();
    }
    if (part.empty()) {
        co_return Result<>();
    }
    if (framing_ == Framing::none) {
        co_return failure(Error::response_sent);
    }
    if (!count_part(part.size())) {
        co_return failure(Error::wrong_length);
    }
    while (!part.empty()) {
        if (const Result<> room = co_await until_unsent(most_unsent); !room) {
            stream_error_ = room.error();
            co_return room;
        }
        const Bytes next = part.first(std::min(part.size(), part_size));
        connection_.session().write(*stream_,
                                    {reinterpret_cast<const char*>(next.data()), next.size()});
        connection_.send_soon();
        part = part.subspan(next.size());
    }
    // The part is the connection's now. The next one waits for the client.
    (void)co_await penstock::detail::BudgetOperation();
    co_return Result<>();
}

Task<Result<>> Http2Exchange::write_file(fs::File& file, std::uint64_t offset, std::uint64_t size) {
    if (!fits_length(size)) {
        co_return failure(Error::wrong_length);
    }
    co_return co_await copy_file(file, offset, size);
}

bool Http2Exchange::is_simple(const Result<>& handled,
                              const std::exception_ptr& thrown) const noexcept {
    return stream_ != nullptr && !response_started() && handled.has_value() && !thrown &&
           (body_text_.size() <= whole_body || answers_head() || !status_has_body());
}

void Http2Exchange::complete() {
    const bool sends = frame_whole_body() && !body_text_.empty();
    respond(!sends);
    body_left_ = 0;
    if (sends) {
        connection_.session().write(*stream_, body_text_);
        connection_.session().finish(*stream_);
    }
    handed_over_ = true;
}

/// The response cannot be completed: the client gets what was written, and then learns that it is a
/// part.
Task<void> Http2Exchange::reset_behind_output() {
    (void)co_await until_unsent(0);
    if (stream_ != nullptr) {
        connection_.session().reset(*stream_, codec::http2::ErrorCode::internal_error);
    }
}

Task<void> Http2Exchange::finish(Result<> handled, std::exception_ptr thrown) {
    const std::error_code error = thrown     ? error_of(thrown)
                                  : !handled ? handled.error()
                                             : std::error_code();
    const bool cancelled = error == std::errc::operation_canceled;
    if (stream_ == nullptr || stream_error_) {
        // The handler has the error of the stream, or was cancelled for it, or has ignored it.
        if ((thrown || !handled) && !cancelled && error != stream_error_) {
            report(error, thrown);
        }
        if (stream_ != nullptr) {
            connection_.session().reset(*stream_, codec::http2::ErrorCode::cancel);
        }
        co_return;
    }
    if (cancelled && late_ && !response_started()) {
        answer(Status::request_timeout);
    } else if (cancelled) { // with the server, or by itself: there is no response
        connection_.session().reset(*stream_, codec::http2::ErrorCode::cancel);
        co_return;
    } else if ((thrown || !handled) &&
               !answer_failure(thrown ? std::error_code() : error, thrown)) {
        co_await reset_behind_output();
        co_return;
    }
    if (is_simple({}, {})) {
        complete();
        co_return;
    }
    if (!response_started()) {
        const std::string body = take_body();
        announced_ = body.size();
        if (const Result<> written = co_await write_body(Bytes(body)); !written) {
            if (stream_ != nullptr) {
                connection_.session().reset(*stream_, codec::http2::ErrorCode::cancel);
            }
            co_return;
        }
    }
    if (framing_ == Framing::length && body_left_ > 0) {
        report(Error::wrong_length, nullptr);
        co_await reset_behind_output();
        co_return;
    }
    if (stream_ != nullptr) {
        connection_.session().finish(*stream_);
        handed_over_ = true;
    }
}

} // namespace penstock::http::detail
