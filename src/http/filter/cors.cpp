#include <penstock/http/filter/cors.hpp>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace penstock::http {

namespace {

std::string joined(const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) {
        text += text.empty() ? "" : ", ";
        text += part;
    }
    return text;
}

} // namespace

Cors::Cors(CorsOptions options)
    : options_(std::move(options)), any_origin_(std::ranges::count(options_.origins, "*") != 0),
      methods_(joined(options_.methods)), request_fields_(joined(options_.request_fields)),
      response_fields_(joined(options_.response_fields)),
      max_age_(std::to_string(options_.max_age.count())) {
    if (options_.origins.empty()) {
        throw std::invalid_argument("Cors: no origin is allowed; name one, or \"*\"");
    }
    if (any_origin_ && (options_.origins.size() > 1 || options_.credentials)) {
        throw std::invalid_argument(
            "Cors: \"*\" stands alone and without credentials; name the origins");
    }
}

bool Cors::allows(std::string_view origin) const noexcept {
    return any_origin_ || std::ranges::find(options_.origins, origin) != options_.origins.end();
}

bool Cors::operator()(Request& request, Response& response) const {
    if (!any_origin_) {
        response.vary_by("Origin"); // caches must not give one origin's answer to another
    }
    const std::optional<std::string_view> origin = request.header("Origin");
    const bool is_preflight = request.method() == Method::options &&
                              request.header("Access-Control-Request-Method").has_value();
    if (origin && allows(*origin)) {
        response.lasting_header("Access-Control-Allow-Origin", any_origin_ ? "*" : *origin);
        if (options_.credentials) {
            response.lasting_header("Access-Control-Allow-Credentials", "true");
        }
        if (is_preflight) {
            const auto tell = [&](const char* name, const std::string& value) {
                if (!value.empty()) {
                    response.header(name, value);
                }
            };
            tell("Access-Control-Allow-Methods", methods_);
            tell("Access-Control-Allow-Headers", request_fields_);
            tell("Access-Control-Max-Age", max_age_);
        } else if (!response_fields_.empty()) {
            response.lasting_header("Access-Control-Expose-Headers", response_fields_);
        }
    }
    if (is_preflight) {
        response.status(Status::no_content);
    }
    return !is_preflight;
}

} // namespace penstock::http
