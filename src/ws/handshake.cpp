#include <penstock/ws/detail/handshake.hpp>

#include <optional>
#include <utility>

#include <penstock/codec/http/error.hpp>
#include <penstock/codec/http/head_writer.hpp>
#include <penstock/codec/websocket/masking.hpp>
#include <penstock/ws/errors.hpp>

namespace penstock::ws::detail {

namespace http = codec::http;
namespace websocket = codec::websocket;

namespace {

using FieldList = std::vector<std::pair<std::string, std::string>>;

/// Calls `write` with a larger buffer until the head fits. Nothing if a text was refused.
std::optional<std::string> write_head(const auto& write) {
    for (std::size_t size = 512;; size *= 2) {
        std::string buffer(size, '\0');
        http::HeadWriter head(buffer);
        write(head);
        head.end();
        if (!head.failed()) {
            return std::string(head.text());
        }
        if (!head.overflowed()) {
            return std::nullopt;
        }
    }
}

void write_fields(http::HeadWriter& head, const FieldList& fields) {
    for (const auto& [name, value] : fields) {
        head.field(name, value);
    }
}

std::vector<std::string_view> views(const std::vector<std::string>& texts) {
    return {texts.begin(), texts.end()};
}

std::error_code invalid_argument() noexcept {
    return std::make_error_code(std::errc::invalid_argument);
}

void append(std::string& text, Bytes bytes) {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

/// Keeps the head that was parsed in `opening.text`, and drops what follows it.
std::size_t keep(Opening& opening, const http::Head& head) {
    const std::size_t surplus = opening.text.size() - head.size;
    opening.text.resize(head.size); // does not move the text
    return surplus;
}

} // namespace

http::Fields Opening::fields() {
    if (!parsed) {
        std::array<http::Field, maximum_fields> storage;
        http::Fields found;
        if (text.starts_with("HTTP/")) {
            http::ResponseParser parser(storage, head_limits);
            (void)parser.parse(text); // as before, when the handshake was made
            found = parser.head().fields;
        } else {
            http::RequestParser parser(storage, head_limits);
            (void)parser.parse(text);
            found = parser.head().fields;
        }
        parsed = std::make_unique<std::vector<http::Field>>(found.begin(), found.end());
    }
    return http::Fields(*parsed);
}

ServerHandshake::ServerHandshake(const AcceptOptions& options)
    : options_(options), storage_(), parser_(storage_, head_limits),
      opening_(std::make_unique<Opening>()) {}

bool ServerHandshake::take(Bytes received) {
    append(opening_->text, received);
    switch (parser_.parse(opening_->text)) {
    case http::Progress::incomplete:
        return false;
    case http::Progress::failed:
        refuse(http::status_for(parser_.error()), Error::invalid_http);
        return true;
    case http::Progress::complete:
        break;
    }
    answer();
    return true;
}

void ServerHandshake::answer() {
    const http::RequestHead& head = parser_.head();
    if (const HandshakeError error = websocket::check_request(head);
        error != HandshakeError::none) {
        refuse(websocket::status_for(error), error);
        return;
    }
    if (options_.check) {
        if (const int status = options_.check(head); status != 0) {
            refuse(status, Error::refused);
            return;
        }
    }
    opening_->target = head.target;
    opening_->subprotocol =
        websocket::select_subprotocol(head.fields, views(options_.subprotocols));
    std::optional<websocket::DeflateAgreement> agreement;
    if (options_.compression) {
        agreement = websocket::accept_offer(head.fields, options_.compression->parameters);
    }
    std::optional<std::string> response = write_head([&](http::HeadWriter& writer) {
        websocket::write_response(writer, websocket::key_of(head));
        if (agreement) {
            writer.field("Sec-WebSocket-Extensions", agreement->response);
        }
        if (!opening_->subprotocol.empty()) {
            writer.field("Sec-WebSocket-Protocol", opening_->subprotocol);
        }
        write_fields(writer, options_.fields);
    });
    if (!response) {
        refuse(500, invalid_argument());
        return;
    }
    response_ = std::move(*response);
    if (agreement) {
        opening_->compression = agreement->parameters;
    }
    surplus_ = keep(*opening_, head);
}

void ServerHandshake::refuse(int status, std::error_code error) {
    error_ = error;
    response_ = write_head([&](http::HeadWriter& writer) {
                    writer.status(status);
                    if (status == 405) {
                        writer.field("Allow", "GET");
                    }
                    if (status == 426) { // RFC 9110, section 15.5.22; RFC 6455, section 4.2.2
                        writer.field("Upgrade", "websocket");
                        writer.field("Sec-WebSocket-Version", "13");
                    }
                    writer.field("Connection", status == 426 ? "Upgrade, close" : "close");
                    writer.content_length(0);
                }).value_or(std::string());
}

ClientHandshake::ClientHandshake(std::string_view host, std::string_view target,
                                 const ConnectOptions& options)
    : options_(options), storage_(), parser_(storage_, head_limits),
      opening_(std::make_unique<Opening>()) {
    std::string offered;
    for (const std::string& name : options.subprotocols) {
        if (!http::is_token(name)) {
            error_ = invalid_argument();
            return;
        }
        offered += (offered.empty() ? "" : ", ") + name;
    }
    std::optional<std::string> request = write_head([&](http::HeadWriter& writer) {
        websocket::write_request(writer, target, key_.text());
        writer.field("Host", host);
        if (!offered.empty()) {
            writer.field("Sec-WebSocket-Protocol", offered);
        }
        if (options.compression) {
            writer.field("Sec-WebSocket-Extensions",
                         websocket::make_offer(options.compression->parameters));
        }
        write_fields(writer, options.fields);
    });
    if (!request) {
        error_ = invalid_argument();
        return;
    }
    request_ = std::move(*request);
}

bool ClientHandshake::take(Bytes received) {
    append(opening_->text, received);
    for (;;) {
        switch (parser_.parse(opening_->text)) {
        case http::Progress::incomplete:
            return false;
        case http::Progress::failed:
            error_ = Error::invalid_http;
            return true;
        case http::Progress::complete:
            break;
        }
        const http::ResponseHead& head = parser_.head();
        if (head.status >= 200 || head.status == 101) {
            check();
            return true;
        }
        // An interim response (RFC 9110, section 15.2). All of them together are as long as a head.
        interim_ += head.size;
        if (interim_ > head_limits.head) {
            error_ = Error::invalid_http;
            return true;
        }
        opening_->text.erase(0, head.size);
    }
}

void ClientHandshake::check() {
    const http::ResponseHead& head = parser_.head();
    const HandshakeError error =
        websocket::check_response(head, key_.text(), views(options_.subprotocols));
    const websocket::DeflateAnswer answer = websocket::check_answer(
        head.fields,
        options_.compression ? std::optional(options_.compression->parameters) : std::nullopt);
    if (error != HandshakeError::none) {
        error_ = error;
        if (options_.on_refusal) {
            options_.on_refusal(head);
        }
    } else if (!answer.valid) {
        error_ = Error::unexpected_extension;
    } else {
        opening_->compression = answer.parameters;
        opening_->subprotocol = head.fields.find("Sec-WebSocket-Protocol").value_or("");
        surplus_ = keep(*opening_, head);
    }
}

websocket::MaskKey next_mask_key() {
    // One stock for all connections of a thread: it has 512 bytes.
    static thread_local websocket::MaskKeys keys;
    return keys.next();
}

std::error_code error_for(std::uint16_t close_code) noexcept {
    switch (close_code) {
    case websocket::close_code::invalid_payload:
        return Error::invalid_payload;
    case websocket::close_code::message_too_big:
        return Error::message_too_big;
    default:
        return Error::protocol_violation;
    }
}

} // namespace penstock::ws::detail
