#include <penstock/codec/http/error.hpp>

namespace penstock::codec::http {

std::string_view describe(Error error) noexcept {
    switch (error) {
    case Error::none:
        return "no error";
    case Error::bare_line_feed:
        return "a line ends with LF instead of CRLF";
    case Error::bare_carriage_return:
        return "CR without LF";
    case Error::invalid_method:
        return "the method is not a token";
    case Error::invalid_target:
        return "the request target is malformed";
    case Error::invalid_version:
        return "the HTTP version is malformed";
    case Error::unsupported_version:
        return "the HTTP version is not 1.x";
    case Error::invalid_status:
        return "the status is not a number from 100 to 999";
    case Error::invalid_reason:
        return "the reason phrase has a control character";
    case Error::folded_line:
        return "a field line begins with white space";
    case Error::invalid_field_name:
        return "a field name is not a token";
    case Error::space_before_colon:
        return "white space between a field name and its colon";
    case Error::invalid_field_value:
        return "a field value has a control character";
    case Error::target_too_long:
        return "the request line is too long";
    case Error::line_too_long:
        return "a line is too long";
    case Error::head_too_large:
        return "the head is too large";
    case Error::too_many_fields:
        return "the message has too many fields";
    case Error::missing_host:
        return "an HTTP/1.1 request has no Host field";
    case Error::invalid_host:
        return "the Host field is repeated or malformed";
    case Error::invalid_content_length:
        return "Content-Length is repeated or is not a number";
    case Error::conflicting_framing:
        return "the message has both Content-Length and Transfer-Encoding";
    case Error::unexpected_framing:
        return "Transfer-Encoding is not allowed in this message";
    case Error::unexpected_body:
        return "a CONNECT request has a body";
    case Error::invalid_transfer_coding:
        return "the transfer codings do not end with a single chunked";
    case Error::unsupported_transfer_coding:
        return "a transfer coding other than chunked";
    case Error::invalid_chunk_size:
        return "a chunk size is not a hexadecimal number below 2^63";
    case Error::invalid_chunk_extension:
        return "a chunk extension is malformed or too long";
    case Error::invalid_chunk_end:
        return "chunk data does not end with CRLF";
    case Error::invalid_trailer:
        return "a trailer field concerns the message's framing";
    }
    return "unknown error";
}

int status_for(Error error) noexcept {
    switch (error) {
    case Error::target_too_long:
        return 414;
    case Error::head_too_large:
    case Error::line_too_long:
    case Error::too_many_fields:
        return 431;
    case Error::unsupported_transfer_coding:
        return 501;
    case Error::unsupported_version:
        return 505;
    default:
        return 400;
    }
}

} // namespace penstock::codec::http
