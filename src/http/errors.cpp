#include <penstock/http/errors.hpp>

#include <string>

#include <penstock/io/never_destroyed.hpp>

namespace penstock::http {

namespace {

class Category final : public std::error_category {
public:
    [[nodiscard]] const char* name() const noexcept override { return "penstock.http"; }

    [[nodiscard]] std::string message(int value) const override {
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
        return "unknown error " + std::to_string(value);
    }
};

class MessageCategory final : public std::error_category {
public:
    [[nodiscard]] const char* name() const noexcept override { return "penstock.http.message"; }

    [[nodiscard]] std::string message(int value) const override {
        return std::string(codec::http::describe(static_cast<MessageError>(value)));
    }
};

} // namespace

const std::error_category& error_category() noexcept {
    static const io::NeverDestroyed<Category> category;
    return *category;
}

const std::error_category& message_category() noexcept {
    static const io::NeverDestroyed<MessageCategory> category;
    return *category;
}

} // namespace penstock::http
