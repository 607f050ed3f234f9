#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace penstock::codec::http {

/// Applies a content coding (RFC 9110, section 8.4.1) to one body. Not thread safe.
class ContentEncoder {
public:
    ContentEncoder() = default;
    ContentEncoder(const ContentEncoder&) = delete;
    ContentEncoder& operator=(const ContentEncoder&) = delete;
    virtual ~ContentEncoder() = default;

    /// Appends what a part becomes to `output`, so that its receiver can decode all of it at once.
    /// Throws `std::bad_alloc`.
    virtual void encode(std::span<const std::byte> part, std::string& output) = 0;

    /// The same with the last part, and with the end of the coding. Once.
    virtual void finish(std::span<const std::byte> part, std::string& output) = 0;
};

/// A content coding that a server can apply.
struct ContentCoding {
    std::string name; ///< in lower case, as Accept-Encoding and Content-Encoding have it
    std::function<std::unique_ptr<ContentEncoder>()> make;
};

/// The coding "gzip" (RFC 1952) on zlib, with its levels 1 to 9. In the CMake component
/// `penstock::deflate`, which exists where zlib does. An encoder has up to 270 KiB. A thread keeps
/// at most four that have finished, for the next bodies.
[[nodiscard]] ContentCoding gzip(int level = 5);

/// The coding "br" (RFC 7932) on libbrotlienc, with its qualities 0 to 11. The library is loaded by
/// the first call; nothing if it is not there (Debian: libbrotli1). From 9 on it takes a hundred
/// times as long as at 4. The library cannot use an encoder again, so each body makes its own.
[[nodiscard]] std::optional<ContentCoding> brotli(int quality = 4);

/// The coding "zstd" (RFC 8878) on libzstd, with its levels 1 to 19, whose windows every client
/// must accept (RFC 9659). The library is loaded by the first call; nothing if it is not there
/// (Debian: libzstd1). A thread keeps at most two encoders that have finished, of up to 4 MiB.
[[nodiscard]] std::optional<ContentCoding> zstd(int level = 3);

/// Those of "zstd", "br" and "gzip" that are there, in this order: what is fast for its size comes
/// first. In `penstock::deflate`, as `gzip`.
[[nodiscard]] std::vector<ContentCoding> all_codings();

} // namespace penstock::codec::http
