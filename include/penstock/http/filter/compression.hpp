#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/codec/http/content_encoder.hpp>
#include <penstock/http/detail/body_coding.hpp>
#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>
#include <penstock/result.hpp>
#include <penstock/task/task.hpp>

namespace penstock::http {

/// Whether data of a media type usually compresses well: text, and formats that are text inside,
/// such as JSON and SVG. Parameters of the type are ignored.
[[nodiscard]] bool is_compressible(std::string_view media_type) noexcept;

/// The settings of `Compression`.
struct CompressionOptions {
    /// The codings to apply, the preferred one first: `codec::http::all_codings()`, or some such as
    /// `codec::http::gzip()`.
    std::vector<codec::http::ContentCoding> codings{};
    /// A body that is set as a whole and has fewer bytes than this is not coded: it fits in one
    /// packet.
    std::size_t least = 500;
    /// Returns whether to code a response with this Content-Type.
    std::function<bool(std::string_view media_type)> compressible = &is_compressible;
};

/// A filter that applies a content coding to the response, if the client accepts it (RFC 9110,
/// section 12.5.3):
///
///     const http::Compression compression({.codings = codec::http::all_codings()});
///     server.get("/report", http::chain(compression, report));
///
/// It codes whole bodies, bodies that are sent in parts, and files, which are then read instead of
/// sent by sendfile(2). The client can decode each part as soon as it arrives. The response gets
/// Content-Encoding and Vary. Its ETag becomes weak, because the coded bytes may differ each time,
/// and Accept-Ranges is removed. Not coded are responses without a body (204), of a part (206),
/// with a Content-Encoding, with no-transform in Cache-Control, and those that `compressible`
/// refuses.
///
/// The response to HEAD has the fields that GET would have. It has the size of the coded body if
/// the handler sets a body of up to 256 KiB, and no size otherwise. A 304 has the ETag that the
/// client knows, and Vary.
///
/// Do not compress a response that contains a secret and text that a client has sent: over TLS the
/// size of such responses reveals the secret bit by bit (BREACH).
///
/// Copies share their settings. Thread safety: only on the thread of the connection's loop.
class Compression {
public:
    /// Throws `std::invalid_argument` without a coding.
    explicit Compression(CompressionOptions options);

    template <typename Next>
    Task<Result<>> operator()(Request& request, Response& response, Next next) {
        detail::BodyCoding coding(*options_, request, response);
        const Result<> outcome = co_await next(request, response);
        if (!outcome) {
            co_return outcome;
        }
        co_return co_await coding.finish();
    }

private:
    std::shared_ptr<const CompressionOptions> options_;
};

} // namespace penstock::http
