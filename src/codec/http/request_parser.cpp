#include <penstock/codec/http/request_parser.hpp>

#include <algorithm>

#include "codec/http/authority.hpp"
#include "codec/http/characters.hpp"
#include "codec/http/head_cursor.hpp"

namespace penstock::codec::http {

namespace {

/// Whether the target has the form that the method requires (RFC 9112, 3.2).
bool is_target_of(std::string_view method, std::string_view target) noexcept {
    if (target.empty()) {
        return false;
    }
    if (method == "CONNECT") {
        return is_authority(target, Port::required);
    }
    if (target.front() == '/') {
        return true;
    }
    if (target == "*") {
        return method == "OPTIONS";
    }
    // An origin server is asked for http and https alone (RFC 9110, 4.2). A user before the host
    // would be taken for the host by some (RFC 9110, 4.2.4), so it is refused.
    const std::size_t colon = std::min(target.find("://"), target.size());
    const std::string_view scheme = target.substr(0, colon);
    if (!equal_ignoring_case(scheme, "http") && !equal_ignoring_case(scheme, "https")) {
        return false;
    }
    const std::string_view rest = target.substr(std::min(colon + 3, target.size()));
    return is_authority(rest.substr(0, rest.find_first_of("/?")), Port::optional);
}

} // namespace

bool HeadScanner::worth_parsing(std::string_view data, const Limits& limits) noexcept {
    if (scanned_ == 0) {
        return true;
    }
    std::size_t place = scanned_;
    for (;;) {
        const std::size_t found = data.find('\n', place);
        if (found == std::string_view::npos) {
            break;
        }
        // Either the head ends here, or something is wrong here.
        if (found == 0 || data[found - 1] != '\r' || found < 2 || data[found - 2] == '\n') {
            return true;
        }
        place = found + 1;
    }
    scanned_ = data.size();
    return data.size() > limits.head;
}

Error RequestParser::parse_whole(std::string_view data, bool& more) noexcept {
    HeadCursor cursor(HeadCursor::Of::request, data, limits_);
    bool in_request_line = true;
    const auto stop = [&] {
        more = cursor.more;
        return in_request_line && cursor.error == Error::line_too_long ? Error::target_too_long
                                                                       : cursor.error;
    };
    if (!cursor.skip_empty_line() || !cursor.run(token_character, head_.method)) {
        return stop();
    }
    if (head_.method.empty()) {
        return cursor.peek() == '\n' ? Error::bare_line_feed : Error::invalid_method;
    }
    if (!cursor.character(' ', Error::invalid_method) ||
        !cursor.run(target_character, head_.target)) {
        return stop();
    }
    if (!is_target_of(head_.method, head_.target)) {
        return Error::invalid_target;
    }
    if (!cursor.character(' ', Error::invalid_target) || !cursor.version(head_.minor_version)) {
        return stop();
    }
    if (!cursor.line_end()) {
        return cursor.error == Error::invalid_field_value ? Error::invalid_version : stop();
    }
    in_request_line = false;
    std::size_t count = 0;
    if (!cursor.fields(storage_, count)) {
        return stop();
    }
    const HeadCursor::Framing& framing = cursor.framing;
    if (framing.has_transfer_encoding) {
        if (framing.has_content_length) {
            return Error::conflicting_framing;
        }
        if (head_.minor_version == 0) {
            return Error::unexpected_framing;
        }
        if (const Error error = framing.coding_error(); error != Error::none) {
            return error;
        }
    }
    // What follows is the tunnel's (RFC 9110, 9.3.6): a recipient may not see a body there.
    if (head_.method == "CONNECT" && (framing.chunked || framing.content_length > 0)) {
        return Error::unexpected_body;
    }
    if (!framing.has_host && head_.minor_version >= 1) {
        return Error::missing_host;
    }
    head_.fields = Fields(storage_.first(count));
    head_.host = framing.host;
    head_.size = cursor.consumed();
    head_.keep_alive = keeps_alive(framing, head_.minor_version);
    head_.expect_continue = framing.expect_continue && head_.minor_version >= 1;
    head_.expects_other = framing.expects_other && head_.minor_version >= 1;
    head_.upgrade = (framing.upgrade_token && framing.upgrade_field && head_.minor_version >= 1) ||
                    head_.method == "CONNECT";
    head_.body = {};
    if (framing.chunked) {
        head_.body.kind = BodyFraming::Kind::chunked;
    } else if (framing.content_length > 0) {
        head_.body = {BodyFraming::Kind::length, framing.content_length};
    }
    return Error::none;
}

Progress RequestParser::parse(std::string_view data) noexcept {
    if (!scanner_.worth_parsing(data, limits_)) {
        return Progress::incomplete;
    }
    bool more = false;
    error_ = parse_whole(data, more);
    if (more) {
        scanner_.remember(data);
        return Progress::incomplete;
    }
    scanner_.reset();
    return error_ == Error::none ? Progress::complete : Progress::failed;
}

} // namespace penstock::codec::http
