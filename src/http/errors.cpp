#include <penstock/http/errors.hpp>

#include <string>

#include "detail/error_category.hpp"

namespace penstock::http {

namespace {

struct HttpErrors {
    static constexpr const char* name = "penstock.http";

    static std::string message(int value) {
        switch (static_cast<Error>(value)) {
        case Error::body_too_large:
            return "the body is larger than the limit";
        case Error::truncated:
            return "the connection ended inside a message";
        case Error::response_sent:
            return "the response is complete or must not have a body";
        case Error::wrong_length:
            return "the body does not have the length that was announced";
        case Error::not_an_upgrade:
            return "only the handler of an upgrade can take the connection over";
        }
        return penstock::detail::unknown_error(value);
    }
};

struct MessageErrors {
    static constexpr const char* name = "penstock.http.message";

    static std::string message(int value) {
        return std::string(codec::http::describe(static_cast<MessageError>(value)));
    }
};

} // namespace

const std::error_category& error_category() noexcept {
    return penstock::detail::category_of<HttpErrors>();
}

const std::error_category& message_category() noexcept {
    return penstock::detail::category_of<MessageErrors>();
}

} // namespace penstock::http
