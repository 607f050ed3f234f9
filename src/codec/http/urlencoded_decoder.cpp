#include <penstock/codec/http/urlencoded_decoder.hpp>

#include <algorithm>

namespace penstock::codec::http {

UrlencodedDecoder::Event UrlencodedDecoder::next(std::string_view& input) {
    while (error_ == FormError::none && !input.empty()) {
        if (total_ == limits_.total) {
            return fail(FormError::form_too_large);
        }
        std::string_view piece = input.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(
                                                     input.size(), limits_.total - total_)));
        const std::size_t ampersand = piece.find('&');
        piece = piece.substr(0, ampersand);
        if (!take(piece)) {
            return {.kind = Event::Kind::failed, .name = {}, .value = {}};
        }
        const std::size_t used = piece.size() + (ampersand == std::string_view::npos ? 0 : 1);
        total_ += used;
        input.remove_prefix(used);
        if (ampersand != std::string_view::npos && !raw_.empty()) {
            return complete();
        }
    }
    return {.kind = error_ == FormError::none ? Event::Kind::incomplete : Event::Kind::failed,
            .name = {},
            .value = {}};
}

UrlencodedDecoder::Event UrlencodedDecoder::finish() {
    if (error_ != FormError::none) {
        return {.kind = Event::Kind::failed, .name = {}, .value = {}};
    }
    return raw_.empty() ? Event{.kind = Event::Kind::end, .name = {}, .value = {}} : complete();
}

/// Appends to the pair that has begun. False beyond a limit.
bool UrlencodedDecoder::take(std::string_view text) {
    if (text.empty()) {
        return true;
    }
    if (raw_.empty() && pairs_ == limits_.parts) {
        error_ = FormError::too_many_parts;
        return false;
    }
    if (name_size_ == std::string::npos) {
        const std::size_t equals = text.find('=');
        const std::size_t name = raw_.size() + std::min(equals, text.size());
        if (name > limits_.name) {
            error_ = FormError::name_too_long;
            return false;
        }
        if (equals != std::string_view::npos) {
            name_size_ = name;
        }
    }
    const std::size_t size = raw_.size() + text.size();
    if (name_size_ != std::string::npos && size - name_size_ - 1 > limits_.value) {
        error_ = FormError::value_too_large;
        return false;
    }
    raw_ += text;
    return true;
}

UrlencodedDecoder::Event UrlencodedDecoder::complete() {
    const std::string_view raw = raw_;
    name_ = decode_form_text(raw.substr(0, name_size_));
    value_ = name_size_ == std::string::npos ? std::string()
                                             : decode_form_text(raw.substr(name_size_ + 1));
    raw_.clear();
    name_size_ = std::string::npos;
    ++pairs_;
    return {.kind = Event::Kind::pair, .name = name_, .value = value_};
}

UrlencodedDecoder::Event UrlencodedDecoder::fail(FormError error) noexcept {
    error_ = error;
    return {.kind = Event::Kind::failed, .name = {}, .value = {}};
}

} // namespace penstock::codec::http
