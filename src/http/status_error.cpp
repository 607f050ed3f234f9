#include <penstock/http/status_error.hpp>

#include <string>

namespace penstock::http {

namespace {

std::string line_of(Status status, std::string_view text) {
    if (!is_error(status)) {
        throw std::invalid_argument("http::StatusError: " + std::to_string(code(status)) +
                                    " is not the status of an error; use one from 400 to 599");
    }
    std::string line = std::to_string(code(status));
    if (const std::string_view phrase = reason(status); !phrase.empty()) {
        line.append(" ").append(phrase);
    }
    if (!text.empty()) {
        line.append(": ").append(text);
    }
    return line;
}

} // namespace

StatusError::StatusError(Status status, std::string_view reason)
    : std::runtime_error(line_of(status, reason)), status_(status) {}

} // namespace penstock::http
