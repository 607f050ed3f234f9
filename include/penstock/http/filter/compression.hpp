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

/// Whether data of a media type usually become smaller: text, and what is text inside. Parameters
/// are ignored.
[[nodiscard]] bool is_compressible(std::string_view media_type) noexcept;

/// What `Compression` does.
struct CompressionOptions {
    /// What may be applied, the preferred one first: `codec::http::all_codings()`, or such as
    /// `codec::http::gzip()`.
    std::vector<codec::http::ContentCoding> codings{};
    /// A body that is set as a whole and has fewer bytes is sent as it is: it fits in a packet.
    std::size_t least = 500;
    /// Says whether a response with this Content-Type is to be coded.
    std::function<bool(std::string_view media_type)> compressible = &is_compressible;
};

/// A filter that applies a content coding to the response, if the client accepts it (RFC 9110,
/// section 12.5.3):
///
///     const http::Compression compression({.codings = codec::http::all_codings()});
///     server.get("/report", http::chain(compression, report));
///
/// Whole bodies and those that are sent in parts are coded, and files too, which then are read
/// instead of sent by the kernel. Each part can be decoded as soon as it has arrived. The response
/// gets Content-Encoding and Vary; its ETag becomes weak, because the bytes may differ each time;
/// Accept-Ranges is removed. Left alone is what has no body (204) or is a part (206), what has a
/// Content-Encoding, or no-transform in its Cache-Control, and what `compressible` refuses.
///
/// HEAD tells what GET would: also the size of the coded body, if the handler sets a body of up to
/// 256 KiB, and none otherwise. A 304 has the tag that the client knows, and Vary.
///
/// Data that hold a secret beside what a stranger has sent must not be compressed under TLS: their
/// size tells the secret by and by (BREACH).
///
/// Copies share their settings.
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
