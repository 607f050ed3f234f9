#include <penstock/http/response.hpp>

#include <stdexcept>
#include <utility>

#include <penstock/http/detail/body_coding.hpp>

#include "http/server_exchange.hpp"

namespace penstock::http {

void Response::require_not_started() const {
    if (started()) {
        throw std::logic_error("http::Response: the head was sent, so it cannot be changed; set "
                               "status and body before the first write_all");
    }
}

void Response::require_final(Status status) const {
    if (code(status) < 200 || code(status) > 999) {
        throw std::invalid_argument("http::Response: " + std::to_string(code(status)) +
                                    " is not a final status; use one from 200 to 999");
    }
    require_not_started();
}

void Response::status(Status status) {
    require_final(status);
    head_.status = status;
}

Headers& Response::lasting() {
    if (lasting_ == nullptr) {
        lasting_ = std::make_unique<Headers>();
    }
    return *lasting_;
}

void Response::lasting_header(std::string_view name, std::string_view value) {
    lasting().set(name, value);
    header(name, value);
}

void Response::vary_by(std::string_view name) {
    for (Headers* headers : {&lasting(), &head_.headers}) {
        if (!headers->has_token("Vary", name) && headers->find("Vary") != "*") {
            headers->add("Vary", name);
        }
    }
}

void Response::refuse(Status status) {
    require_final(status);
    exchange_.answer(status);
}

void Response::body(std::string_view text) {
    require_not_started();
    exchange_.set_body(text);
}

void Response::body(std::string&& text) {
    require_not_started();
    exchange_.set_body(std::move(text));
}

std::string_view Response::body_text() const noexcept {
    return exchange_.body_text();
}

void Response::content_length(std::uint64_t size) {
    require_not_started();
    exchange_.announce(size);
}

Task<Result<>> Response::write_all(Bytes part) {
    return coding_ != nullptr ? coding_->write_all(part) : exchange_.write_body(part);
}

Task<Result<>> Response::send_file(fs::File& file, std::uint64_t offset, std::uint64_t size) {
    return coding_ != nullptr ? coding_->send_file(file, offset, size)
                              : exchange_.write_file(file, offset, size);
}

bool Response::started() const noexcept {
    return exchange_.response_started();
}

} // namespace penstock::http
