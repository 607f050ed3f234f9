#include <penstock/codec/http/multipart_decoder.hpp>

#include <algorithm>

#include "codec/http/part_head.hpp"

namespace penstock::codec::http {

namespace {

/// Where the delimiter, or what may become it in the next input, begins in the text; its size if
/// nowhere. Linear: the delimiter has its CR in front only, so that no comparison is made twice.
std::size_t find_begin(std::string_view text, std::string_view delimiter) noexcept {
    for (std::size_t at = text.find('\r'); at != std::string_view::npos;
         at = text.find('\r', at + 1)) {
        if (delimiter.starts_with(text.substr(at, delimiter.size()))) {
            return at;
        }
    }
    return text.size();
}

} // namespace

MultipartDecoder::MultipartDecoder(std::string_view boundary, const FormLimits& limits)
    : limits_(limits), delimiter_("\r\n--") {
    delimiter_ += boundary;
}

MultipartDecoder::Event MultipartDecoder::next(std::string_view& input) {
    if (state_ == State::failed) {
        return {.kind = Event::Kind::failed, .data = {}};
    }
    std::string_view allowed = input.substr(
        0, static_cast<std::size_t>(std::min<std::uint64_t>(input.size(), limits_.total - total_)));
    const std::size_t before = allowed.size();
    Event event;
    do {
        event = step(allowed);
    } while (event.kind == Event::Kind::incomplete && !allowed.empty());
    total_ += before - allowed.size();
    input.remove_prefix(before - allowed.size());
    if (event.kind == Event::Kind::incomplete && !input.empty()) {
        return failed(FormError::form_too_large);
    }
    return event;
}

bool MultipartDecoder::finish() noexcept {
    if (state_ == State::closing_padding || state_ == State::epilogue) {
        return true;
    }
    return state_ != State::failed && fail(FormError::truncated);
}

/// Makes some progress, and takes at least one byte unless there is an event or no input.
MultipartDecoder::Event MultipartDecoder::step(std::string_view& input) {
    switch (state_) {
    case State::preamble:
    case State::content:
        return search(input);
    case State::head:
        return take_head(input);
    case State::epilogue: {
        const std::size_t size = input.size();
        input = {};
        return skip(size) ? Event() : Event{.kind = Event::Kind::failed, .data = {}};
    }
    case State::failed:
        return {.kind = Event::Kind::failed, .data = {}};
    default:
        if (!input.empty()) {
            const char c = input.front();
            input.remove_prefix(1);
            if (!pass(c)) {
                return {.kind = Event::Kind::failed, .data = {}};
            }
        }
        return {};
    }
}

/// Looks for the delimiter. What is before it is content, or is skipped in the preamble.
MultipartDecoder::Event MultipartDecoder::search(std::string_view& input) noexcept {
    std::string_view passed;
    if (matched_ == 0) {
        passed = input.substr(0, find_begin(input, delimiter_));
        input.remove_prefix(passed.size());
    }
    if (passed.empty()) {
        while (!input.empty() && matched_ < delimiter_.size() &&
               input.front() == delimiter_[matched_]) {
            ++matched_;
            input.remove_prefix(1);
        }
        if (matched_ == delimiter_.size()) {
            const bool in_part = state_ == State::content;
            state_ = State::delimiter;
            matched_ = 0;
            imagined_ = 0;
            return {.kind = in_part ? Event::Kind::part_end : Event::Kind::incomplete, .data = {}};
        }
        if (input.empty()) {
            return {};
        }
        // It was none. Another one cannot have begun within what is given back.
        passed = std::string_view(delimiter_).substr(imagined_, matched_ - imagined_);
        matched_ = 0;
        imagined_ = 0;
    }
    if (state_ == State::content) {
        return passed.empty() ? Event() : content(passed);
    }
    return skip(passed.size()) ? Event() : Event{.kind = Event::Kind::failed, .data = {}};
}

MultipartDecoder::Event MultipartDecoder::content(std::string_view data) noexcept {
    const std::uint64_t room = part_limit_ - part_size_;
    if (data.size() > room) {
        fail(part_.file_name ? FormError::file_too_large : FormError::value_too_large);
        data = data.substr(0, static_cast<std::size_t>(room));
        if (data.empty()) {
            return {.kind = Event::Kind::failed, .data = {}};
        }
    }
    part_size_ += data.size();
    return {.kind = Event::Kind::data, .data = data};
}

/// What follows a delimiter, character by character.
bool MultipartDecoder::pass(char c) noexcept {
    const bool space = c == ' ' || c == '\t';
    switch (state_) {
    case State::delimiter:
        if (c == '-') {
            state_ = State::closing_hyphen;
            return true;
        }
        [[fallthrough]];
    case State::padding:
        state_ = c == '\r' ? State::line_feed : State::padding;
        return c == '\r' || (space ? skip(1) : fail(FormError::invalid_delimiter));
    case State::line_feed:
        return c == '\n' ? begin_head() : fail(FormError::invalid_delimiter);
    case State::closing_hyphen:
        state_ = State::closing_padding;
        return c == '-' || fail(FormError::invalid_delimiter);
    case State::closing_padding:
        if (c == '\r') {
            state_ = State::closing_line_feed;
            return true;
        }
        return space ? skip(1) : fail(FormError::invalid_delimiter);
    case State::closing_line_feed:
        state_ = State::epilogue;
        return c == '\n' || fail(FormError::invalid_delimiter);
    default:
        return false;
    }
}

bool MultipartDecoder::begin_head() noexcept {
    if (parts_ == limits_.parts) {
        return fail(FormError::too_many_parts);
    }
    ++parts_;
    head_.clear();
    state_ = State::head;
    return true;
}

/// Collects the fields of a part up to the empty line.
MultipartDecoder::Event MultipartDecoder::take_head(std::string_view& input) {
    const std::size_t line_feed = input.find('\n');
    const std::string_view line =
        input.substr(0, line_feed == std::string_view::npos ? line_feed : line_feed + 1);
    if (line.size() > limits_.part_head - head_.size()) {
        return failed(FormError::part_head_too_large);
    }
    head_ += line;
    input.remove_prefix(line.size());
    if (line_feed == std::string_view::npos) {
        return {};
    }
    if (!head_.ends_with("\r\n")) {
        return failed(FormError::invalid_part_head);
    }
    if (head_ != "\r\n" && !head_.ends_with("\r\n\r\n")) {
        return {};
    }
    const std::string_view fields = std::string_view(head_).substr(0, head_.size() - 2);
    if (const FormError error = parse_part_head(fields, limits_, part_); error != FormError::none) {
        return failed(error);
    }
    part_limit_ = part_.file_name ? limits_.file : limits_.value;
    part_size_ = 0;
    // The line end of the empty line may be the beginning of the delimiter, and is not content.
    matched_ = 2;
    imagined_ = 2;
    state_ = State::content;
    return {.kind = Event::Kind::part, .data = {}};
}

/// Counts what is neither a field nor content. False beyond the limit.
bool MultipartDecoder::skip(std::size_t size) noexcept {
    if (size > limits_.surroundings - skipped_) {
        return fail(FormError::surroundings_too_large);
    }
    skipped_ += size;
    return true;
}

/// Always false.
bool MultipartDecoder::fail(FormError error) noexcept {
    state_ = State::failed;
    error_ = error;
    return false;
}

MultipartDecoder::Event MultipartDecoder::failed(FormError error) noexcept {
    fail(error);
    return {.kind = Event::Kind::failed, .data = {}};
}

} // namespace penstock::codec::http
