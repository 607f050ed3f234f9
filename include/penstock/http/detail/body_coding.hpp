#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <penstock/codec/http/content_encoder.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/task/task.hpp>

namespace penstock::fs {
class File;
}

namespace penstock::http {

class Request;
class Response;
struct CompressionOptions;

namespace detail {

/// Between a handler's response and its exchange: codes the body, if that is worth it. It decides
/// with the first part, when status and fields are final.
class BodyCoding {
public:
    BodyCoding(const CompressionOptions& options, const Request& request,
               Response& response) noexcept;
    ~BodyCoding();
    BodyCoding(const BodyCoding&) = delete;
    BodyCoding& operator=(const BodyCoding&) = delete;

    [[nodiscard]] Task<Result<>> write_all(Bytes part);
    [[nodiscard]] Task<Result<>> send_file(fs::File& file, std::uint64_t offset,
                                           std::uint64_t size);
    /// After the handler: a body that was set as a whole, or the end of the coding.
    [[nodiscard]] Task<Result<>> finish();

private:
    /// Whether the body is coded. `size` is known of a whole one.
    [[nodiscard]] bool begin(std::optional<std::uint64_t> size);
    [[nodiscard]] const codec::http::ContentCoding* choose(std::optional<std::uint64_t> size);
    void tell_not_modified();
    [[nodiscard]] bool is_head() const noexcept;
    [[nodiscard]] Task<Result<>> send_head();

    const CompressionOptions& options_;
    const Request& request_;
    Response& response_;
    std::unique_ptr<codec::http::ContentEncoder> encoder_;
    std::optional<std::uint64_t> announced_; ///< by the handler
    std::uint64_t taken_ = 0;
    bool decided_ = false;
    bool active_; ///< there is no other one around it
};

} // namespace detail
} // namespace penstock::http
