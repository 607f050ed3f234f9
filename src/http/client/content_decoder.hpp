#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/http/headers.hpp>
#include <penstock/stream/bytes.hpp>

namespace penstock::http::detail {

/// Decodes the content codings of a response's body (RFC 9110, section 8.4): gzip (RFC 1952, with
/// any number of members) and deflate (RFC 1950, or RFC 1951 bare, as some servers send it), one
/// over another.
///
/// Rejected: libcurl's own decoders (CURLOPT_ACCEPT_ENCODING). They take data that were cut off for
/// complete ones, a byte that is changed in a checksum too, and decode on while a transfer is
/// paused: up to 64 MiB of what nobody has asked for. This one makes no more than there is room
/// for, and knows whether the data have come to their own end. Brotli and zstd are not asked for.
///
/// Not thread-safe.
class ContentDecoder {
public:
    /// The value of Accept-Encoding that asks for what it decodes.
    static constexpr const char* accepted = "gzip, deflate";

    /// None if the fields name no coding, or identity only. Throws `std::bad_alloc`. A coding that
    /// it does not know is an error as soon as there are data.
    [[nodiscard]] static std::unique_ptr<ContentDecoder> make(const Headers& headers);

    ContentDecoder(const ContentDecoder&) = delete;
    ContentDecoder& operator=(const ContentDecoder&) = delete;
    ~ContentDecoder();

    struct Step {
        std::size_t taken = 0; ///< bytes of the input
        std::size_t made = 0;  ///< bytes of the output
    };
    /// Decodes until `into` is full or the input is used up. Nothing is taken and made when more
    /// input is needed, or after an error.
    [[nodiscard]] Step decode(Bytes from, MutableBytes into) noexcept;

    /// To be called when there is no more input, and `decode` makes nothing more. Data that have
    /// not come to their end are an error then. A body of no bytes at all is not.
    void end() noexcept;

    /// Why it failed; empty if it has not. `out_of_memory` tells the one cause that is not the
    /// server's.
    [[nodiscard]] const std::string& error() const noexcept { return error_; }
    [[nodiscard]] bool failed() const noexcept { return failed_; }
    [[nodiscard]] bool out_of_memory() const noexcept { return out_of_memory_; }

private:
    class Layer;

    ContentDecoder() = default;
    [[nodiscard]] Step decode_layer(std::size_t number, Bytes from, MutableBytes into) noexcept;
    void fail(std::string_view coding, std::string_view what, std::string_view why) noexcept;

    std::vector<std::unique_ptr<Layer>> layers_; ///< the first is the one that was applied last
    std::string unknown_;
    std::string error_;
    bool failed_ = false;
    bool out_of_memory_ = false;
};

} // namespace penstock::http::detail
