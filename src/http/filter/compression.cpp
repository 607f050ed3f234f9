#include <penstock/http/filter/compression.hpp>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include <penstock/codec/http/fields.hpp>
#include <penstock/fs/file.hpp>
#include <penstock/http/errors.hpp>

#include "http/content_negotiation.hpp"
#include "http/server_exchange.hpp"

namespace penstock::http {

namespace {

/// What is coded in one step, so that other tasks have their turn.
constexpr std::size_t part_size = std::size_t{64} * 1024;

/// What a whole body may have to be coded in one step.
constexpr std::size_t whole_size = std::size_t{256} * 1024;

void weaken_tag(Headers& headers) {
    const std::optional<std::string_view> tag = headers.find("ETag");
    if (tag && tag->starts_with('"')) {
        headers.set("ETag", "W/" + std::string(*tag));
    }
}

/// Whether the client has a coded body, of which it knows this tag as a weak one.
bool has_coded(const Request& request, std::string_view tag) {
    for (const Field& field : request.fields()) {
        if (!codec::http::equal_ignoring_case(field.name, "If-None-Match")) {
            continue;
        }
        std::string_view list = field.value;
        for (std::string_view each = codec::http::next_list_element(list); !each.empty();
             each = codec::http::next_list_element(list)) {
            if (each.starts_with("W/") && each.substr(2) == tag) {
                return true;
            }
        }
    }
    return false;
}

} // namespace

bool is_compressible(std::string_view media_type) noexcept {
    constexpr std::array types{"application/javascript",
                               "application/json",
                               "application/manifest+json",
                               "application/wasm",
                               "application/x-ndjson",
                               "application/xml",
                               "image/bmp",
                               "image/x-icon",
                               "image/vnd.microsoft.icon"};
    std::string_view type = media_type.substr(0, media_type.find(';'));
    while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) {
        type.remove_suffix(1);
    }
    const auto ends_with = [&](std::string_view end) {
        return type.size() > end.size() &&
               codec::http::equal_ignoring_case(type.substr(type.size() - end.size()), end);
    };
    return codec::http::equal_ignoring_case(type.substr(0, 5), "text/") || ends_with("+json") ||
           ends_with("+xml") || std::ranges::any_of(types, [&](std::string_view each) {
               return codec::http::equal_ignoring_case(type, each);
           });
}

Compression::Compression(CompressionOptions options) {
    if (options.codings.empty()) {
        throw std::invalid_argument("http::Compression: no coding; give it one, such as "
                                    "codec::http::gzip()");
    }
    options_ = std::make_shared<const CompressionOptions>(std::move(options));
}

namespace detail {

BodyCoding::BodyCoding(const CompressionOptions& options, const Request& request,
                       Response& response) noexcept
    : options_(options), request_(request), response_(response),
      active_(response.coding_ == nullptr) {
    if (active_) {
        response.coding_ = this;
    }
}

BodyCoding::~BodyCoding() {
    if (active_) {
        response_.coding_ = nullptr;
    }
}

const codec::http::ContentCoding* BodyCoding::choose(std::optional<std::uint64_t> size) {
    Headers& headers = response_.headers();
    const Status status = response_.status();
    if (status == Status::not_modified) {
        tell_not_modified();
        return nullptr;
    }
    const bool alone = status == Status::no_content || status == Status::reset_content ||
                       status == Status::partial_content;
    if (alone || headers.contains("Content-Encoding") || headers.contains("Content-Range") ||
        headers.has_token("Cache-Control", "no-transform") ||
        !options_.compressible(headers.find("Content-Type").value_or(std::string_view()))) {
        return nullptr;
    }
    append_vary(headers); // also where this request gets it as it is
    if (size && *size < options_.least) {
        return nullptr;
    }
    std::vector<std::string_view> names;
    names.reserve(options_.codings.size());
    for (const codec::http::ContentCoding& each : options_.codings) {
        names.emplace_back(each.name);
    }
    const std::optional<std::size_t> chosen = negotiate_coding(request_.fields(), names);
    return chosen ? &options_.codings[*chosen] : nullptr;
}

/// The fields that the client would have got with the body (RFC 9110, section 15.4.5).
void BodyCoding::tell_not_modified() {
    Headers& headers = response_.headers();
    const std::optional<std::string_view> type = headers.find("Content-Type");
    if (headers.contains("Content-Encoding") || (type && !options_.compressible(*type))) {
        return;
    }
    append_vary(headers);
    if (const auto tag = headers.find("ETag"); tag && has_coded(request_, *tag)) {
        weaken_tag(headers);
    }
}

bool BodyCoding::begin(std::optional<std::uint64_t> size) {
    if (decided_ || response_.started()) {
        return encoder_ != nullptr;
    }
    decided_ = true;
    const codec::http::ContentCoding* const coding = choose(size);
    if (coding == nullptr) {
        return false;
    }
    encoder_ = coding->make();
    Headers& headers = response_.headers();
    headers.set("Content-Encoding", coding->name);
    headers.remove("Accept-Ranges");
    weaken_tag(headers);
    announced_ = response_.exchange_.take_announced();
    return true;
}

bool BodyCoding::is_head() const noexcept {
    return request_.method() == Method::head;
}

/// Answers HEAD as GET: what the size of the coded body would be is not known before it was made.
Task<Result<>> BodyCoding::send_head() {
    (void)response_.exchange_.take_body();
    return response_.exchange_.write_body({});
}

Task<Result<>> BodyCoding::write_all(Bytes part) {
    if (!response_.exchange_.body_text().empty()) { // before a coding is begun for the part
        co_return failure(Error::response_sent);
    }
    if (!begin(response_.exchange_.announced())) {
        co_return co_await response_.exchange_.write_body(part);
    }
    if (is_head()) {
        const Result<> sent = co_await send_head();
        co_return sent && !part.empty() ? failure(Error::response_sent) : sent;
    }
    if (announced_ && part.size() > *announced_ - taken_) {
        co_return failure(Error::wrong_length);
    }
    std::string coded;
    do {
        const Bytes piece(part.data(), std::min(part.size(), part_size));
        part = Bytes(part.data() + piece.size(), part.size() - piece.size());
        taken_ += piece.size();
        coded.clear();
        if (!piece.empty()) {
            encoder_->encode(piece, coded);
        }
        const Result<> written = co_await response_.exchange_.write_body(Bytes(coded));
        if (!written) {
            co_return written;
        }
    } while (!part.empty());
    co_return Result<>();
}

Task<Result<>> BodyCoding::send_file(fs::File& file, std::uint64_t offset, std::uint64_t size) {
    if (!response_.exchange_.body_text().empty()) {
        co_return failure(Error::response_sent);
    }
    if (!begin(response_.exchange_.announced().value_or(size))) {
        co_return co_await response_.exchange_.write_file(file, offset, size);
    }
    if (is_head()) {
        co_return co_await send_head();
    }
    if (!announced_ && !response_.started()) { // it is the whole body
        announced_ = size;
    }
    const auto buffer = std::make_unique_for_overwrite<std::byte[]>(
        static_cast<std::size_t>(std::min<std::uint64_t>(size, part_size)));
    while (size > 0) {
        const MutableBytes into(buffer.get(),
                                static_cast<std::size_t>(std::min<std::uint64_t>(size, part_size)));
        const Result<std::size_t> count = co_await file.read_at(offset, into);
        if (!count || *count == 0) {
            co_return failure(count ? make_error_code(Error::wrong_length) : count.error());
        }
        if (const Result<> written = co_await write_all(Bytes(buffer.get(), *count)); !written) {
            co_return written;
        }
        offset += *count;
        size -= *count;
    }
    co_return Result<>();
}

Task<Result<>> BodyCoding::finish() {
    if (!active_) {
        co_return Result<>();
    }
    if (!response_.started()) {
        const std::size_t set = response_.exchange_.body_text().size();
        // A handler may answer HEAD by the size that it would send.
        const std::uint64_t size =
            is_head() && set == 0 ? response_.exchange_.announced().value_or(0) : set;
        if (!begin(size)) {
            co_return Result<>();
        }
        if (is_head() && (set == 0 || set > whole_size)) {
            co_return co_await send_head();
        }
        std::string text = response_.exchange_.take_body();
        if (text.size() <= whole_size) {
            std::string coded;
            encoder_->finish(Bytes(text), coded);
            encoder_.reset();
            response_.body(std::move(coded));
            co_return Result<>();
        }
        announced_.reset();
        if (const Result<> written = co_await write_all(Bytes(text)); !written) {
            co_return written;
        }
    }
    if (encoder_ == nullptr || is_head()) {
        co_return Result<>();
    }
    if (announced_ && taken_ != *announced_) {
        co_return failure(Error::wrong_length);
    }
    std::string end;
    encoder_->finish({}, end);
    encoder_.reset();
    co_return co_await response_.exchange_.write_body(Bytes(end));
}

} // namespace detail
} // namespace penstock::http
