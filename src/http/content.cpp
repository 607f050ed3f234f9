#include <penstock/http/content.hpp>

#include <time.h>

#include <penstock/codec/http/date.hpp>
#include <penstock/http/preconditions.hpp>

#include "http/byte_range.hpp"

namespace penstock::http {

namespace {

/// A response that tells only its status, in the fields that are set already.
void tell(Response& response, Status status) {
    response.status(status);
    response.headers().remove("Cache-Control"); // which is the content's
    response.header("Content-Type", "text/plain; charset=utf-8");
    response.body(std::to_string(code(status)) + " " + std::string(reason(status)) + "\n");
}

} // namespace

std::optional<ContentRange> begin_content(const Request& request, Response& response,
                                          const Content& content) {
    Validators current{.entity_tag = content.entity_tag, .modified = std::nullopt};
    if (content.modified) {
        current.modified = content.modified->time_since_epoch().count();
        response.header("Last-Modified", codec::http::DateText(*current.modified).text());
    }
    if (!content.entity_tag.empty()) {
        response.header("ETag", content.entity_tag);
    }
    response.header("Accept-Ranges", "bytes");
    if (!content.cache_control.empty()) {
        response.header("Cache-Control", content.cache_control);
    }
    const codec::http::Seconds now = ::time(nullptr);
    const Status precondition =
        check_preconditions(request.method(), request.fields(), current, now);
    if (precondition == Status::precondition_failed) {
        tell(response, precondition);
        return std::nullopt;
    }
    if (precondition == Status::not_modified) {
        response.status(precondition);
        return std::nullopt;
    }
    ContentRange sent{.begin = 0, .size = content.size};
    const std::optional<std::string_view> wanted = request.header("Range");
    if (wanted && request.method() == Method::get && allows_range(request.fields(), current, now)) {
        if (const std::optional<ByteRange> part = parse_range(*wanted, content.size)) {
            if (part->size == 0) {
                tell(response, Status::range_not_satisfiable);
                response.header("Content-Range", "bytes */" + std::to_string(content.size));
                return std::nullopt;
            }
            sent = {.begin = part->begin, .size = part->size};
            response.status(Status::partial_content);
            response.header("Content-Range", "bytes " + std::to_string(sent.begin) + "-" +
                                                 std::to_string(sent.begin + sent.size - 1) + "/" +
                                                 std::to_string(content.size));
        }
    }
    response.header("Content-Type", content.content_type);
    return sent;
}

Task<Result<>> send_content(Request& request, Response& response, Content content, Bytes body) {
    content.size = body.size();
    if (const std::optional<ContentRange> range = begin_content(request, response, content)) {
        const auto begin = static_cast<std::size_t>(range->begin);
        const auto size = static_cast<std::size_t>(range->size);
        response.content_length(size);
        if (request.method() != Method::head) {
            const auto part = body.subspan(begin, size);
            co_return co_await response.write_all(Bytes(part.data(), part.size()));
        }
    }
    co_return Result<>();
}

Task<Result<>> send_content(Request& request, Response& response, Content content, fs::File& body) {
    if (const std::optional<ContentRange> range = begin_content(request, response, content)) {
        co_return co_await response.send_file(body, range->begin, range->size);
    }
    co_return Result<>();
}

} // namespace penstock::http
