#include <penstock/http/filter/conditional.hpp>

#include <array>
#include <cstddef>
#include <string_view>

#include <time.h>

#include <penstock/codec/http/date.hpp>
#include <penstock/http/preconditions.hpp>

#include "codec/sha1.hpp"
#include "http/server_exchange.hpp"

namespace penstock::http {

namespace {

bool reads(const Request& request) noexcept {
    return request.method() == Method::get || request.method() == Method::head;
}

std::string tag_of(std::string_view body) {
    constexpr std::string_view digits = "0123456789abcdef";
    constexpr std::size_t used = 16; // of 20: no defence, only a name
    const std::array<std::byte, 20> digest = codec::sha1(body);
    std::string tag = "\"";
    for (std::size_t i = 0; i < used; ++i) {
        tag += digits[std::to_integer<std::size_t>(digest[i] >> 4)];
        tag += digits[std::to_integer<std::size_t>(digest[i] & std::byte{15})];
    }
    return tag += '"';
}

} // namespace

namespace detail {

bool meets_conditions(const Request& request, Response& response,
                      const std::optional<ResourceState>& state) {
    if (!state) {
        // "*" is any state, and a list names some of it (RFC 9110, section 13.1.1).
        if (request.header("If-Match")) {
            response.refuse(Status::precondition_failed);
            return false;
        }
        return true;
    }
    Validators current{.entity_tag = state->entity_tag, .modified = std::nullopt};
    if (state->modified) {
        current.modified = state->modified->time_since_epoch().count();
    }
    const Status decided =
        check_preconditions(request.method(), request.fields(), current, ::time(nullptr));
    if (decided == Status::precondition_failed) {
        response.refuse(Status::precondition_failed);
    } else if (decided != Status::ok) {
        response.status(decided);
    }
    if (decided != Status::ok || reads(request)) { // after a change, the tag would be the old one
        if (!state->entity_tag.empty()) {
            response.header("ETag", state->entity_tag);
        }
        if (current.modified) {
            response.header("Last-Modified", codec::http::DateText(*current.modified).text());
        }
    }
    return decided == Status::ok;
}

} // namespace detail

void EntityTags::tag(const Request& request, Response& response) {
    if (response.started() || response.status() != Status::ok || !reads(request) ||
        response.headers().contains("ETag") || response.body_text().empty()) {
        return;
    }
    const std::string tag = tag_of(response.body_text());
    response.header("ETag", tag);
    const codec::http::Seconds now = ::time(nullptr);
    Validators current{.entity_tag = tag, .modified = std::nullopt};
    if (const auto modified = response.headers().find("Last-Modified")) {
        current.modified = codec::http::parse_date(*modified, now);
    }
    const Status decided = check_preconditions(request.method(), request.fields(), current, now);
    if (decided == Status::precondition_failed) {
        response.refuse(Status::precondition_failed);
    } else if (decided != Status::ok) {
        response.status(decided);
        response.body("");
    }
}

} // namespace penstock::http
