#pragma once

#include <cstddef>

namespace penstock::codec::http {

/// Bounds on what a peer may send before its message is refused, in bytes. The number of fields is
/// bounded by the storage that the caller gives a parser.
struct Limits {
    std::size_t line = 16384;            ///< one line: request line, status line, field line
    std::size_t head = 65536;            ///< all lines before the body; likewise all trailer lines
    std::size_t chunk_extensions = 4096; ///< all chunk extensions of one body
};

} // namespace penstock::codec::http
