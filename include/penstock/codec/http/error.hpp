#pragma once

#include <cstdint>
#include <string_view>

namespace penstock::codec::http {

/// Why a message is refused. After an error the rest of the connection cannot be parsed: the end of
/// the message, and so the beginning of the next one, is unknown.
enum class Error : std::uint8_t {
    none,
    bare_line_feed,              ///< a line ends with LF instead of CRLF (RFC 9112, 2.2)
    bare_carriage_return,        ///< CR without LF (RFC 9112, 2.2)
    invalid_method,              ///< the method is not a token
    invalid_target,              ///< the request target has none of the four forms (RFC 9112, 3.2)
    invalid_version,             ///< the HTTP version is malformed
    unsupported_version,         ///< a well-formed version other than HTTP/1.x
    invalid_status,              ///< the status is not three digits, or is below 100
    invalid_reason,              ///< a control character in the reason phrase
    folded_line,                 ///< obsolete line folding, or space before the first field
    invalid_field_name,          ///< an empty field name, or one that is not a token
    space_before_colon,          ///< white space between field name and colon (RFC 9112, 5.1)
    invalid_field_value,         ///< a control character, such as NUL, in a field value
    target_too_long,             ///< the request line is beyond `Limits::line`
    line_too_long,               ///< another line is beyond `Limits::line`
    head_too_large,              ///< beyond `Limits::head`
    too_many_fields,             ///< beyond the field storage
    missing_host,                ///< an HTTP/1.1 request without Host
    invalid_host,                ///< more than one Host, or one that is not a host with a port
    invalid_content_length,      ///< not a number, beyond 2^63 - 1, or given twice
    conflicting_framing,         ///< both Content-Length and Transfer-Encoding (RFC 9112, 6.3)
    unexpected_framing,          ///< Transfer-Encoding in HTTP/1.0, or with status 1xx or 204
    unexpected_body,             ///< a CONNECT request announces a body
    invalid_transfer_coding,     ///< `chunked` is not the last one, or not the only one of it
    unsupported_transfer_coding, ///< a transfer coding before `chunked`
    invalid_chunk_size,          ///< not hexadecimal, or beyond 2^63 - 1
    invalid_chunk_extension,     ///< malformed, or beyond `Limits::chunk_extensions`
    invalid_chunk_end,           ///< chunk data without its CRLF
    invalid_trailer,             ///< a trailer field that would change the framing
};

/// A short description in English.
[[nodiscard]] std::string_view describe(Error error) noexcept;

/// The status with which a server answers a request that has this error: 400, 414, 431, 501 or 505.
[[nodiscard]] int status_for(Error error) noexcept;

} // namespace penstock::codec::http
