#include <penstock/codec/http/head_writer.hpp>

#include <charconv>
#include <cstring>
#include <memory>

#include <penstock/codec/http/fields.hpp>

#include "codec/http/characters.hpp"

namespace penstock::codec::http {

namespace {

bool has_control(std::string_view text) noexcept {
    const std::span<const char> characters(text);
    const char* end = std::to_address(characters.end());
    return find_control(std::to_address(characters.begin()), end) != end;
}

struct Number {
    explicit Number(std::uint64_t value, int base = 10) noexcept
        : size(static_cast<std::size_t>(
              std::to_chars(digits.data(), digits.data() + digits.size(), value, base).ptr -
              digits.data())) {}
    [[nodiscard]] std::string_view text() const noexcept { return {digits.data(), size}; }

    std::array<char, 20> digits{};
    std::size_t size;
};

} // namespace

void HeadWriter::put(std::string_view text) noexcept {
    if (failed()) {
        return;
    }
    if (text.size() > buffer_.size() - size_) {
        overflow_ = true;
        return;
    }
    if (!text.empty()) {
        std::memcpy(buffer_.data() + size_, text.data(), text.size());
        size_ += text.size();
    }
}

HeadWriter& HeadWriter::request(std::string_view method, std::string_view target) noexcept {
    invalid_ |= !is_token(method) || target.empty() || !consists_of(target, target_character);
    put(method);
    put(" ");
    put(target);
    put(" HTTP/1.1\r\n");
    return *this;
}

HeadWriter& HeadWriter::status(int code, std::string_view reason) noexcept {
    invalid_ |= code < 100 || code > 999 || has_control(reason);
    put("HTTP/1.1 ");
    put(Number(static_cast<std::uint64_t>(code < 0 ? 0 : code)).text());
    put(" ");
    put(reason.empty() ? reason_of(code) : reason);
    put("\r\n");
    return *this;
}

HeadWriter& HeadWriter::field(std::string_view name, std::string_view value) noexcept {
    invalid_ |= !is_token(name) || has_control(value);
    put(name);
    put(": ");
    put(value);
    put("\r\n");
    return *this;
}

HeadWriter& HeadWriter::field(std::string_view name, std::uint64_t value) noexcept {
    return field(name, Number(value).text());
}

HeadWriter& HeadWriter::end() noexcept {
    put("\r\n");
    return *this;
}

ChunkHead::ChunkHead(std::uint64_t size) noexcept {
    const Number number(size, 16);
    std::memcpy(text_.data(), number.digits.data(), number.size);
    text_[number.size] = '\r';
    text_[number.size + 1] = '\n';
    size_ = number.size + 2;
}

std::string_view reason_of(int status) noexcept {
    switch (status) {
    case 100:
        return "Continue";
    case 101:
        return "Switching Protocols";
    case 103:
        return "Early Hints";
    case 200:
        return "OK";
    case 201:
        return "Created";
    case 202:
        return "Accepted";
    case 203:
        return "Non-Authoritative Information";
    case 204:
        return "No Content";
    case 205:
        return "Reset Content";
    case 206:
        return "Partial Content";
    case 300:
        return "Multiple Choices";
    case 301:
        return "Moved Permanently";
    case 302:
        return "Found";
    case 303:
        return "See Other";
    case 304:
        return "Not Modified";
    case 307:
        return "Temporary Redirect";
    case 308:
        return "Permanent Redirect";
    case 400:
        return "Bad Request";
    case 401:
        return "Unauthorized";
    case 402:
        return "Payment Required";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 406:
        return "Not Acceptable";
    case 407:
        return "Proxy Authentication Required";
    case 408:
        return "Request Timeout";
    case 409:
        return "Conflict";
    case 410:
        return "Gone";
    case 411:
        return "Length Required";
    case 412:
        return "Precondition Failed";
    case 413:
        return "Content Too Large";
    case 414:
        return "URI Too Long";
    case 415:
        return "Unsupported Media Type";
    case 416:
        return "Range Not Satisfiable";
    case 417:
        return "Expectation Failed";
    case 421:
        return "Misdirected Request";
    case 422:
        return "Unprocessable Content";
    case 426:
        return "Upgrade Required";
    case 428:
        return "Precondition Required";
    case 429:
        return "Too Many Requests";
    case 431:
        return "Request Header Fields Too Large";
    case 500:
        return "Internal Server Error";
    case 501:
        return "Not Implemented";
    case 502:
        return "Bad Gateway";
    case 503:
        return "Service Unavailable";
    case 504:
        return "Gateway Timeout";
    case 505:
        return "HTTP Version Not Supported";
    default:
        return {};
    }
}

} // namespace penstock::codec::http
