#include <penstock/http/filter/security_headers.hpp>

namespace penstock::http {

bool SecurityHeaders::operator()(Request& /*request*/, Response& response) const {
    const auto add = [&](const char* name, const std::string& value) {
        if (!value.empty()) {
            response.lasting_header(name, value);
        }
    };
    add("X-Content-Type-Options", content_type_options);
    add("X-Frame-Options", frame_options);
    add("Referrer-Policy", referrer_policy);
    add("Content-Security-Policy", content_security_policy);
    add("Strict-Transport-Security", strict_transport_security);
    add("Cross-Origin-Opener-Policy", cross_origin_opener_policy);
    return true;
}

} // namespace penstock::http
