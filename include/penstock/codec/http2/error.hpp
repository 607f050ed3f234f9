#pragma once

#include <cstdint>

namespace penstock::codec::http2 {

/// Codes of RST_STREAM and GOAWAY (RFC 9113, section 7).
enum class ErrorCode : std::uint32_t {
    no_error = 0x0,
    protocol_error = 0x1,
    internal_error = 0x2,
    flow_control_error = 0x3,
    refused_stream = 0x7,
    cancel = 0x8,
    enhance_your_calm = 0xb,
};

} // namespace penstock::codec::http2
