#include "codec/http/head_cursor.hpp"

#include <algorithm>

#include "codec/http/authority.hpp"
#include "codec/http/characters.hpp"

namespace penstock::codec::http {

namespace {

constexpr std::uint64_t largest_size = (std::uint64_t{1} << 63) - 1;

/// Compares with a text in lower case that has letters, digits and '-' only. `text` is a token of
/// the same length.
bool is_name(std::string_view text, std::string_view lower) noexcept {
    for (std::size_t i = 0; i < lower.size(); ++i) {
        if ((text[i] | 0x20) != lower[i]) {
            return false;
        }
    }
    return true;
}

} // namespace

bool HeadCursor::within_limits() noexcept {
    if (static_cast<std::size_t>(position_ - line_) > limits_.line) {
        return fail(Error::line_too_long);
    }
    if (consumed() > limits_.head) {
        return fail(Error::head_too_large);
    }
    return true;
}

bool HeadCursor::need_more() noexcept {
    position_ = end_;
    if (within_limits()) {
        more = true;
    }
    return false;
}

bool HeadCursor::skip_empty_line() noexcept {
    return position_ == end_ || *position_ != '\r' || line_end();
}

bool HeadCursor::line_end() noexcept {
    if (position_ == end_) {
        return need_more();
    }
    if (*position_ == '\n') {
        return fail(Error::bare_line_feed);
    }
    if (*position_ != '\r') {
        return fail(Error::invalid_field_value);
    }
    if (end_ - position_ < 2) {
        return need_more();
    }
    if (position_[1] != '\n') {
        return fail(Error::bare_carriage_return);
    }
    if (!within_limits()) {
        return false;
    }
    position_ += 2;
    line_ = position_;
    return true;
}

bool HeadCursor::run(int kind, std::string_view& text) noexcept {
    const char* begin = position_;
    position_ = skip(position_, end_, static_cast<Class>(kind));
    text = {begin, static_cast<std::size_t>(position_ - begin)};
    return position_ != end_ || need_more();
}

bool HeadCursor::text_until_control(std::string_view& text) noexcept {
    const char* begin = position_;
    position_ = find_control(position_, end_);
    text = {begin, static_cast<std::size_t>(position_ - begin)};
    return position_ != end_ || need_more();
}

bool HeadCursor::character(char wanted, Error otherwise) noexcept {
    if (position_ == end_) {
        return need_more();
    }
    if (*position_ != wanted) {
        return fail(*position_ == '\n' ? Error::bare_line_feed : otherwise);
    }
    ++position_;
    return true;
}

bool HeadCursor::version(int& minor) noexcept {
    constexpr std::string_view name = "HTTP/";
    for (const char wanted : name) {
        if (!character(wanted, Error::invalid_version)) {
            return false;
        }
    }
    if (end_ - position_ < 3) {
        for (const char* c = position_; c != end_; ++c) {
            if (c - position_ == 1 ? *c != '.' : !is(*c, digit)) {
                return fail(Error::invalid_version);
            }
        }
        return need_more();
    }
    if (!is(position_[0], digit) || position_[1] != '.' || !is(position_[2], digit)) {
        return fail(Error::invalid_version);
    }
    if (position_[0] != '1') {
        return fail(Error::unsupported_version);
    }
    minor = position_[2] == '0' ? 0 : 1;
    position_ += 3;
    return true;
}

bool HeadCursor::field(Field& field) noexcept {
    if (*position_ == ' ' || *position_ == '\t') {
        return fail(Error::folded_line);
    }
    if (!run(token_character, field.name)) {
        return false;
    }
    if (*position_ != ':') {
        switch (*position_) {
        case ' ':
        case '\t':
            return fail(Error::space_before_colon);
        case '\n':
            return fail(Error::bare_line_feed);
        default:
            return fail(Error::invalid_field_name);
        }
    }
    if (field.name.empty()) {
        return fail(Error::invalid_field_name);
    }
    ++position_;
    while (position_ != end_ && (*position_ == ' ' || *position_ == '\t')) {
        ++position_;
    }
    if (!text_until_control(field.value)) {
        return false;
    }
    while (!field.value.empty() && (field.value.back() == ' ' || field.value.back() == '\t')) {
        field.value.remove_suffix(1);
    }
    return line_end();
}

bool HeadCursor::fields(std::span<Field> storage, std::size_t& count) noexcept {
    count = 0;
    for (;;) {
        if (position_ == end_) {
            return need_more();
        }
        if (*position_ == '\r' || *position_ == '\n') {
            return line_end();
        }
        if (count == storage.size()) {
            return fail(Error::too_many_fields);
        }
        Field& next = storage[count];
        if (!field(next) || !interpret(next)) {
            return false;
        }
        ++count;
    }
}

bool HeadCursor::content_length(std::string_view value) noexcept {
    // Equal values may be repeated (RFC 9110, 8.6), but a recipient need not accept that, and no
    // sender needs it.
    if (framing.has_content_length || value.empty()) {
        return fail(Error::invalid_content_length);
    }
    std::uint64_t length = 0;
    for (const char c : value) {
        if (!is(c, digit)) {
            return fail(Error::invalid_content_length);
        }
        const auto units = static_cast<std::uint64_t>(c - '0');
        if (length > (largest_size - units) / 10) {
            return fail(Error::invalid_content_length);
        }
        length = length * 10 + units;
    }
    framing.content_length = length;
    framing.has_content_length = true;
    return true;
}

/// Notes the codings of one line, which may be a part of the list (RFC 9110, 5.3). Empty elements
/// of a list mean nothing (RFC 9110, 5.6.1).
bool HeadCursor::transfer_encoding(std::string_view value) noexcept {
    // Tabs around an element are allowed (RFC 9110, 5.6.3), but llhttp and others take them for a
    // part of it, and so see no body where this codec would see one. Up to the end of the line,
    // because the value has lost those behind it.
    // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): the value stands in the line
    if (std::find(value.data(), line_, '\t') != line_) {
        return fail(Error::invalid_transfer_coding);
    }
    framing.has_transfer_encoding = true;
    for (auto coding = next_list_element(value); !coding.empty();
         coding = next_list_element(value)) {
        framing.chunked_early |= framing.chunked;
        framing.chunked = equal_ignoring_case(coding, "chunked");
        framing.other_coding |= !framing.chunked;
    }
    return true;
}

void HeadCursor::expect(std::string_view value) noexcept {
    for (auto expectation = next_list_element(value); !expectation.empty();
         expectation = next_list_element(value)) {
        const bool to_continue = equal_ignoring_case(expectation, "100-continue");
        framing.expect_continue |= to_continue;
        framing.expects_other |= !to_continue;
    }
}

bool HeadCursor::interpret(const Field& field) noexcept {
    const std::string_view name = field.name;
    switch (name.size()) {
    case 4:
        if (is_name(name, "host")) {
            if (of_ == Of::request &&
                (framing.has_host || !is_authority(field.value, Port::optional))) {
                return fail(Error::invalid_host);
            }
            framing.has_host = true;
            framing.host = field.value;
        }
        break;
    case 6:
        if (is_name(name, "expect")) {
            expect(field.value);
        }
        break;
    case 7:
        if (is_name(name, "upgrade")) {
            framing.upgrade_field |= !field.value.empty();
        }
        break;
    case 10:
        if (is_name(name, "connection")) {
            std::string_view list = field.value;
            for (auto token = next_list_element(list); !token.empty();
                 token = next_list_element(list)) {
                framing.close |= equal_ignoring_case(token, "close");
                framing.keep_alive |= equal_ignoring_case(token, "keep-alive");
                framing.upgrade_token |= equal_ignoring_case(token, "upgrade");
            }
        }
        break;
    case 14:
        if (is_name(name, "content-length")) {
            return content_length(field.value);
        }
        break;
    case 17:
        if (is_name(name, "transfer-encoding")) {
            return transfer_encoding(field.value);
        }
        break;
    default:
        break;
    }
    return true;
}

} // namespace penstock::codec::http
