#include <penstock/codec/http/body_decoder.hpp>

#include <algorithm>

#include "codec/http/characters.hpp"
#include "codec/http/head_cursor.hpp"
#include "codec/text.hpp"

namespace penstock::codec::http {

BodyDecoder::BodyDecoder(const BodyFraming& framing, const Limits& limits) noexcept
    : state_(State::ended), limits_(limits) {
    switch (framing.kind) {
    case BodyFraming::Kind::none:
        break;
    case BodyFraming::Kind::length:
        remaining_ = framing.length;
        state_ = remaining_ == 0 ? State::ended : State::length;
        break;
    case BodyFraming::Kind::chunked:
        state_ = State::size_begin;
        break;
    case BodyFraming::Kind::until_close:
        state_ = State::until_close;
        break;
    }
}

bool BodyDecoder::fail(Error error) noexcept {
    error_ = error;
    state_ = State::failed;
    return false;
}

BodyDecoder::Part BodyDecoder::take(std::string_view& input, State after) noexcept {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(remaining_, input.size()));
    const Part part{Part::Kind::data, input.substr(0, size)};
    input.remove_prefix(size);
    remaining_ -= size;
    if (remaining_ == 0) {
        state_ = after;
    }
    return part;
}

/// One character after the `;` behind a chunk size (RFC 9112, 7.1.1), up to the line's CR. White
/// space is refused there as it is behind the size.
bool BodyDecoder::step_in_extension(char c) noexcept {
    if (c == '\n') {
        return fail(Error::bare_line_feed);
    }
    if (c == '\r' && state_ != State::extension_quoted && state_ != State::extension_escape) {
        if (extension_part_size_ == 0) {
            return fail(Error::invalid_chunk_extension);
        }
        state_ = State::size_line_feed;
        return true;
    }
    if (++extension_size_ > limits_.chunk_extensions || is_control(c)) {
        return fail(Error::invalid_chunk_extension);
    }
    switch (state_) {
    case State::extension_quoted:
        if (c == '\\') {
            state_ = State::extension_escape;
        } else if (c == '"') {
            state_ = State::extension_end;
        }
        return true;
    case State::extension_escape:
        state_ = State::extension_quoted;
        return true;
    default:
        break;
    }
    if (c == '"' && state_ == State::extension_value && extension_part_size_ == 0) {
        extension_part_size_ = 1;
        state_ = State::extension_quoted;
        return true;
    }
    if (is(c, token_character) && state_ != State::extension_end) {
        ++extension_part_size_;
        return true;
    }
    const bool separates = c == ';' || (c == '=' && state_ == State::extension_name);
    if (!separates || extension_part_size_ == 0) {
        return fail(Error::invalid_chunk_extension);
    }
    state_ = c == ';' ? State::extension_name : State::extension_value;
    extension_part_size_ = 0;
    return true;
}

/// One character outside of data and trailers.
bool BodyDecoder::step(char c) noexcept {
    switch (state_) {
    case State::size_begin:
        if (!is(c, hex_digit)) {
            return fail(Error::invalid_chunk_size);
        }
        remaining_ = static_cast<std::uint64_t>(hex_value(c));
        state_ = State::size;
        return true;
    case State::size:
        if (is(c, hex_digit)) {
            if (remaining_ >> 59 != 0) {
                return fail(Error::invalid_chunk_size);
            }
            remaining_ = remaining_ * 16 + static_cast<std::uint64_t>(hex_value(c));
            return true;
        }
        if (c == ';') {
            state_ = State::extension_name;
            extension_part_size_ = 0;
            ++extension_size_;
            return true;
        }
        if (c != '\r') {
            return fail(c == '\n' ? Error::bare_line_feed : Error::invalid_chunk_size);
        }
        state_ = State::size_line_feed;
        return true;
    case State::extension_name:
    case State::extension_value:
    case State::extension_quoted:
    case State::extension_escape:
    case State::extension_end:
        return step_in_extension(c);
    case State::size_line_feed:
        if (c != '\n') {
            return fail(Error::bare_carriage_return);
        }
        state_ = remaining_ == 0 ? State::trailers : State::data;
        return true;
    case State::data_carriage_return:
        if (c != '\r') {
            return fail(Error::invalid_chunk_end);
        }
        state_ = State::data_line_feed;
        return true;
    case State::data_line_feed:
        if (c != '\n') {
            return fail(Error::invalid_chunk_end);
        }
        state_ = State::size_begin;
        return true;
    default:
        return true;
    }
}

BodyDecoder::Part BodyDecoder::parse_trailers(std::string_view& input) noexcept {
    if (!scanner_.worth_parsing(input, limits_)) {
        return {};
    }
    HeadCursor cursor(HeadCursor::Of::trailers, input, limits_);
    std::size_t count = 0;
    if (!cursor.fields(storage_, count)) {
        if (cursor.more) {
            scanner_.remember(input);
            return {};
        }
        fail(cursor.error);
        return {Part::Kind::failed, {}};
    }
    const HeadCursor::Framing& framing = cursor.framing;
    if (framing.has_content_length || framing.has_transfer_encoding || framing.has_host) {
        fail(Error::invalid_trailer);
        return {Part::Kind::failed, {}};
    }
    trailer_count_ = count;
    input.remove_prefix(cursor.consumed());
    state_ = State::ended;
    return {Part::Kind::end, {}};
}

BodyDecoder::Part BodyDecoder::next(std::string_view& input) noexcept {
    for (;;) {
        switch (state_) {
        case State::ended:
            return {Part::Kind::end, {}};
        case State::failed:
            return {Part::Kind::failed, {}};
        case State::trailers:
            return input.empty() ? Part{} : parse_trailers(input);
        case State::length:
        case State::data:
            if (input.empty()) {
                return {};
            }
            return take(input,
                        state_ == State::length ? State::ended : State::data_carriage_return);
        case State::until_close: {
            if (input.empty()) {
                return {};
            }
            const Part part{Part::Kind::data, input};
            input = {};
            return part;
        }
        default:
            if (input.empty()) {
                return {};
            }
            (void)step(input.front());
            input.remove_prefix(1);
        }
    }
}

bool BodyDecoder::finish() noexcept {
    if (state_ == State::until_close) {
        state_ = State::ended;
    }
    return state_ == State::ended;
}

} // namespace penstock::codec::http
