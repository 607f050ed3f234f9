#include <penstock/codec/http/response_parser.hpp>

#include "codec/http/characters.hpp"
#include "codec/http/head_cursor.hpp"

namespace penstock::codec::http {

Error ResponseParser::parse_whole(std::string_view data, To request, bool& more) noexcept {
    HeadCursor cursor(HeadCursor::Of::response, data, limits_);
    const auto stop = [&] {
        more = cursor.more;
        return cursor.error;
    };
    std::string_view code;
    if (!cursor.version(head_.minor_version) || !cursor.character(' ', Error::invalid_version) ||
        !cursor.run(digit, code)) {
        return stop();
    }
    if (code.size() != 3 || code[0] == '0') {
        return Error::invalid_status;
    }
    head_.status = (code[0] - '0') * 100 + (code[1] - '0') * 10 + (code[2] - '0');
    head_.reason = {};
    // The space is required even without a reason (RFC 9112, 4), but widely omitted, and its lack
    // changes nothing.
    if (cursor.peek() != '\r') {
        if (!cursor.character(' ', Error::invalid_status) ||
            !cursor.text_until_control(head_.reason)) {
            return stop();
        }
    }
    if (!cursor.line_end()) {
        return cursor.error == Error::invalid_field_value ? Error::invalid_reason : stop();
    }
    std::size_t count = 0;
    if (!cursor.fields(storage_, count)) {
        return stop();
    }
    const HeadCursor::Framing& framing = cursor.framing;
    const int status = head_.status;
    const bool tunnel = request == To::connect && status >= 200 && status < 300;
    // A successful response to CONNECT has no body, whatever it announces (RFC 9110, 9.3.6).
    if (framing.has_transfer_encoding && !tunnel) {
        if (framing.has_content_length) {
            return Error::conflicting_framing;
        }
        if (head_.minor_version == 0 || status < 200 || status == 204) {
            return Error::unexpected_framing;
        }
        if (const Error error = framing.coding_error(); error != Error::none) {
            return error;
        }
    }
    head_.fields = Fields(storage_.first(count));
    head_.size = cursor.consumed();
    head_.keep_alive = keeps_alive(framing, head_.minor_version);
    head_.upgrade = status == 101 || tunnel;
    head_.body = {};
    if (request == To::head || status < 200 || status == 204 || status == 304 || tunnel) {
        return Error::none;
    }
    if (framing.chunked) {
        head_.body.kind = BodyFraming::Kind::chunked;
    } else if (!framing.has_content_length) {
        head_.body.kind = BodyFraming::Kind::until_close;
        head_.keep_alive = false;
    } else if (framing.content_length > 0) {
        head_.body = {BodyFraming::Kind::length, framing.content_length};
    }
    return Error::none;
}

Progress ResponseParser::parse(std::string_view data, To request) noexcept {
    if (!scanner_.worth_parsing(data, limits_)) {
        return Progress::incomplete;
    }
    bool more = false;
    error_ = parse_whole(data, request, more);
    if (more) {
        scanner_.remember(data);
        return Progress::incomplete;
    }
    scanner_.reset();
    return error_ == Error::none ? Progress::complete : Progress::failed;
}

} // namespace penstock::codec::http
