#include "codec/http/parameters.hpp"

#include <algorithm>
#include <utility>

#include "codec/http/characters.hpp"
#include "codec/text.hpp"

namespace penstock::codec::http {

namespace {

/// Takes a token, possibly empty, from the front.
std::string_view take_token(std::string_view& text) noexcept {
    const char* const end = skip(text.data(), text.data() + text.size(), token_character);
    const std::string_view token = text.substr(0, static_cast<std::size_t>(end - text.data()));
    text.remove_prefix(token.size());
    return token;
}

} // namespace

ParameterCursor::ParameterCursor(std::string_view field, Backslash backslash) noexcept
    : subject_(field.substr(0, field.find(';'))), rest_(field.substr(subject_.size())),
      backslash_(backslash) {
    subject_ = trimmed(subject_); // after rest_, which begins at its untrimmed end
}

std::optional<Parameter> ParameterCursor::next() {
    for (;;) {
        skip_space();
        if (rest_.empty()) {
            return std::nullopt;
        }
        if (rest_.front() != ';') {
            break;
        }
        rest_.remove_prefix(1);
        skip_space();
        if (rest_.empty() || rest_.front() == ';') { // an empty parameter
            continue;
        }
        Parameter parameter{.name = take_token(rest_), .value = {}};
        if (parameter.name.empty() || rest_.empty() || rest_.front() != '=') {
            break;
        }
        rest_.remove_prefix(1);
        if (!rest_.empty() && rest_.front() == '"') {
            std::optional<std::string> value = quoted();
            if (!value) {
                break;
            }
            parameter.value = std::move(*value);
        } else {
            parameter.value = take_token(rest_);
            if (parameter.value.empty()) {
                break;
            }
        }
        return parameter;
    }
    malformed_ = true;
    rest_ = {};
    return std::nullopt;
}

std::optional<std::string> ParameterCursor::quoted() {
    std::string text;
    for (std::size_t at = 1; at < rest_.size(); ++at) {
        char c = rest_[at];
        if (c == '"') {
            rest_.remove_prefix(at + 1);
            return text;
        }
        if (c == '\\' && at + 1 < rest_.size() &&
            (backslash_ == Backslash::escapes || rest_[at + 1] == '"' || rest_[at + 1] == '\\')) {
            c = rest_[++at];
        }
        text += c;
    }
    return std::nullopt;
}

void ParameterCursor::skip_space() noexcept {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size()));
}

} // namespace penstock::codec::http
