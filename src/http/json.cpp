#include <penstock/http/json.hpp>

#include <penstock/codec/http/fields.hpp>
#include <penstock/http/refusal.hpp>
#include <penstock/io/never_destroyed.hpp>

#include "codec/http/parameters.hpp"

namespace penstock::http {

namespace {

class Category final : public RefusalCategory {
public:
    [[nodiscard]] const char* name() const noexcept override { return "penstock.http.json"; }

    [[nodiscard]] std::string message(int value) const override {
        return static_cast<JsonError>(value) == JsonError::unsupported_type
                   ? "the Content-Type is not that of JSON"
                   : "the body is not JSON of the wanted form";
    }

    [[nodiscard]] Status status_for(int value) const noexcept override {
        return static_cast<JsonError>(value) == JsonError::unsupported_type
                   ? Status::unsupported_media_type
                   : Status::bad_request;
    }
};

} // namespace

const std::error_category& json_category() noexcept {
    static const io::NeverDestroyed<Category> category;
    return *category;
}

bool is_nested_deeper(std::string_view text, std::size_t most) noexcept {
    std::size_t depth = 0;
    bool quoted = false;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char c = text[at];
        if (quoted && c == '\\') {
            ++at;
        } else if (c == '"') {
            quoted = !quoted;
        } else if (!quoted && (c == '[' || c == '{')) {
            if (++depth > most) {
                return true;
            }
        } else if (!quoted && (c == ']' || c == '}') && depth > 0) {
            --depth;
        }
    }
    return false;
}

bool has_json_type(const Request& request) noexcept {
    constexpr std::string_view suffix = "+json";
    const codec::http::ParameterCursor cursor(
        request.header("Content-Type").value_or(std::string_view()),
        codec::http::Backslash::escapes);
    const std::string_view type = cursor.subject();
    return codec::http::equal_ignoring_case(type, "application/json") ||
           (type.size() > suffix.size() &&
            codec::http::equal_ignoring_case(type.substr(type.size() - suffix.size()), suffix));
}

} // namespace penstock::http
