#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <penstock/codec/http/error.hpp>
#include <penstock/codec/http/fields.hpp>

namespace penstock::codec::http {

/// How the end of a body is found (RFC 9112, 6.3).
struct BodyFraming {
    enum class Kind : std::uint8_t {
        none,        ///< there is no body
        length,      ///< `length` bytes, at least 1
        chunked,     ///< chunks
        until_close, ///< a response's body ends with the connection
    };
    Kind kind = Kind::none;
    std::uint64_t length = 0;
};

/// What request and response heads have in common. All views point into the parsed buffer.
struct Head {
    int major_version = 1; ///< 2 for what came by HTTP/2, then `minor_version` is 0
    int minor_version = 1; ///< 0 for HTTP/1.0; 1 for every later HTTP/1.x
    Fields fields;
    BodyFraming body;
    std::size_t size = 0; ///< bytes of the head, with its empty line
    /// Whether another message may follow on the connection (RFC 9112, 9.3). False for a body that
    /// ends with the connection.
    bool keep_alive = true;
    /// Whether the connection's protocol changes after this head: a request with an Upgrade field
    /// that Connection names, or with method CONNECT; a response with status 101, or 2xx to a
    /// CONNECT.
    bool upgrade = false;
};

struct RequestHead : Head {
    std::string_view method; ///< case-sensitive
    std::string_view target;
    std::string_view host; ///< the Host field's value; empty without one
    bool expect_continue = false;
    /// Whether Expect has anything beside "100-continue": 417 (RFC 9110, 10.1.1).
    bool expects_other = false;
};

struct ResponseHead : Head {
    int status = 0; ///< 100 to 999
    std::string_view reason;
};

/// The result of a parser's step.
enum class Progress : std::uint8_t {
    incomplete, ///< more bytes are needed
    complete,
    failed, ///< the parser's `error()` gives the reason
};

} // namespace penstock::codec::http
