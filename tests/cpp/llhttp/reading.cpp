#include "llhttp/reading.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include <llhttp.h>

#include <penstock/codec/http/body_decoder.hpp>
#include <penstock/codec/http/request_parser.hpp>
#include <penstock/codec/http/response_parser.hpp>

namespace penstock::testing {

namespace {

using namespace codec::http;
using Pairs = std::vector<std::pair<std::string, std::string>>;

// ---- the codec

Pairs pairs_of(Fields fields) {
    Pairs pairs;
    for (const Field& field : fields) {
        pairs.emplace_back(field.name, field.value);
    }
    return pairs;
}

/// Parses the heads of one direction.
class HeadReader {
public:
    explicit HeadReader(Direction direction) : direction_(direction) {}

    Progress parse(std::string_view data) {
        if (direction_ == Direction::requests) {
            return requests_.parse(data);
        }
        const auto to = direction_ == Direction::responses_to_head ? ResponseParser::To::head
                        : direction_ == Direction::responses_to_connect
                            ? ResponseParser::To::connect
                            : ResponseParser::To::other;
        return responses_.parse(data, to);
    }

    [[nodiscard]] Error error() const {
        return direction_ == Direction::requests ? requests_.error() : responses_.error();
    }

    [[nodiscard]] const Head& head() const {
        if (direction_ == Direction::requests) {
            return requests_.head();
        }
        return responses_.head();
    }

    [[nodiscard]] Message message() const {
        Message message;
        if (direction_ == Direction::requests) {
            const RequestHead& head = requests_.head();
            message.start = std::string(head.method) + " " + std::string(head.target);
        } else {
            const ResponseHead& head = responses_.head();
            message.start = std::to_string(head.status) + " " + std::string(head.reason);
        }
        message.minor_version = head().minor_version;
        message.fields = pairs_of(head().fields);
        message.keep_alive = head().keep_alive;
        message.upgrade = head().upgrade;
        return message;
    }

private:
    Direction direction_;
    std::array<Field, 32> storage_;
    RequestParser requests_{storage_};
    ResponseParser responses_{storage_};
};

/// Reads what arrives in parts, as a connection does.
class CodecReader {
public:
    explicit CodecReader(Direction direction) : heads_(direction) {}

    /// Whether more may follow.
    bool take(std::string_view part) {
        buffer_ += part;
        std::string_view input = buffer_;
        while (reading.end == Reading::End::incomplete && step(input)) {
        }
        if (reading.end == Reading::End::failed) {
            reading.refused = std::string(input);
        }
        buffer_ = std::string(input);
        return reading.end == Reading::End::incomplete;
    }

    Reading reading;

private:
    /// False where more bytes are needed.
    bool step(std::string_view& input) {
        if (!in_body_) {
            return begin(input);
        }
        const BodyDecoder::Part part = body_.next(input);
        switch (part.kind) {
        case BodyDecoder::Part::Kind::incomplete:
            return false;
        case BodyDecoder::Part::Kind::failed:
            fail(body_.error());
            return false;
        case BodyDecoder::Part::Kind::data:
            reading.begun += part.data;
            return true;
        case BodyDecoder::Part::Kind::end:
            end();
            return true;
        }
        return false;
    }

    bool begin(std::string_view& input) {
        switch (heads_.parse(input)) {
        case Progress::incomplete:
            return false;
        case Progress::failed:
            fail(heads_.error());
            return false;
        case Progress::complete:
            message_ = heads_.message();
            in_body_ = true;
            body_ = BodyDecoder(heads_.head().body);
            input.remove_prefix(heads_.head().size);
            return true;
        }
        return false;
    }

    void end() {
        in_body_ = false;
        message_.body = std::exchange(reading.begun, {});
        message_.trailers = pairs_of(body_.trailers());
        if (message_.upgrade) {
            reading.end = Reading::End::upgraded;
        } else if (!message_.keep_alive) {
            reading.end = Reading::End::closing;
        }
        reading.messages.push_back(std::exchange(message_, {}));
    }

    void fail(Error error) {
        reading.end = Reading::End::failed;
        reading.error = error;
    }

    HeadReader heads_;
    Message message_; // the one whose body is read, while in_body_
    bool in_body_ = false;
    BodyDecoder body_;
    std::string buffer_;
};

// ---- llhttp

std::string without_space_at_end(std::string text) {
    text.erase(text.find_last_not_of(" \t") + 1);
    return text;
}

struct LlhttpReader {
    explicit LlhttpReader(Direction of) : direction(of) {
        llhttp_settings_init(&settings);
        settings.on_message_begin = [](llhttp_t* parser) { return of_(parser).begin(); };
        settings.on_method = [](llhttp_t* parser, const char* at, std::size_t size) {
            return of_(parser).append(of_(parser).method, at, size);
        };
        settings.on_url = [](llhttp_t* parser, const char* at, std::size_t size) {
            return of_(parser).append(of_(parser).rest, at, size);
        };
        settings.on_status = settings.on_url;
        settings.on_header_field = [](llhttp_t* parser, const char* at, std::size_t size) {
            return of_(parser).append(of_(parser).name, at, size);
        };
        settings.on_header_value = [](llhttp_t* parser, const char* at, std::size_t size) {
            return of_(parser).append(of_(parser).value, at, size);
        };
        settings.on_header_value_complete = [](llhttp_t* parser) { return of_(parser).field(); };
        settings.on_headers_complete = [](llhttp_t* parser) { return of_(parser).head_ends(); };
        settings.on_body = [](llhttp_t* parser, const char* at, std::size_t size) {
            return of_(parser).append(of_(parser).reading.begun, at, size);
        };
        settings.on_message_complete = [](llhttp_t* parser) { return of_(parser).end(); };
        llhttp_init(&parser, direction == Direction::requests ? HTTP_REQUEST : HTTP_RESPONSE,
                    &settings);
        parser.data = this;
    }

    LlhttpReader(const LlhttpReader&) = delete;
    LlhttpReader& operator=(const LlhttpReader&) = delete;
    ~LlhttpReader() = default;

    static LlhttpReader& of_(llhttp_t* parser) { return *static_cast<LlhttpReader*>(parser->data); }

    int begin() {
        message = {};
        for (std::string* part : {&method, &rest, &name, &value}) {
            part->clear();
        }
        in_head = true;
        return 0;
    }

    static int append(std::string& to, const char* at, std::size_t size) {
        to.append(at, size);
        return 0;
    }

    int field() {
        Pairs& fields = in_head ? message.fields : message.trailers;
        fields.emplace_back(std::exchange(name, {}),
                            without_space_at_end(std::exchange(value, {})));
        return 0;
    }

    int head_ends() {
        in_head = false;
        // Not at the end of chunks: llhttp lets trailers say what only the head can (RFC 9110,
        // 6.5.1).
        message.keep_alive = llhttp_should_keep_alive(&parser) != 0;
        const int status = parser.status_code;
        message.start =
            (direction == Direction::requests ? method : std::to_string(status)) + " " + rest;
        message.major_version = parser.http_major;
        message.minor_version = parser.http_minor;
        // A server ignores the field Upgrade of HTTP/1.0 (RFC 9110, 7.8); llhttp does not.
        if (message.minor_version == 0 && method != "CONNECT") {
            parser.upgrade = 0;
        }
        message.upgrade = parser.upgrade != 0;
        if (direction == Direction::responses_to_connect && status >= 200 && status < 300) {
            message.upgrade = true;
            return 2;
        }
        // llhttp takes no other protocol for granted without the two fields.
        if (direction != Direction::requests && status == 101) {
            message.upgrade = true;
            return 2;
        }
        // No 1xx has a body (RFC 9112, 6.3); llhttp knows that of 100 and 101 only.
        const bool interim = direction != Direction::requests && status < 200;
        return interim || direction == Direction::responses_to_head ? 1 : 0;
    }

    int end() {
        if ((parser.flags & F_CHUNKED) == 0) {
            message.keep_alive = llhttp_should_keep_alive(&parser) != 0;
        }
        message.body = std::exchange(reading.begun, {});
        reading.messages.push_back(message);
        if (message.upgrade) {
            reading.end = Reading::End::upgraded;
        } else if (!message.keep_alive) {
            reading.end = Reading::End::closing;
        }
        return reading.end == Reading::End::incomplete ? 0 : HPE_PAUSED;
    }

    Direction direction;
    llhttp_settings_t settings{};
    llhttp_t parser{};
    Reading reading;
    Message message;
    std::string method;
    std::string rest;
    std::string name;
    std::string value;
    bool in_head = true;
};

// ---- the comparison

/// Whether the codec refused on purpose the message that llhttp read as `judge`.
bool stricter_on_purpose(const Reading& ours, const Message& judge) {
    const std::string_view refused = ours.refused;
    // HTTP/0.9, a request line without a version, and HTTP/2.0 in the form of HTTP/1.
    if (judge.major_version != 1) {
        return true;
    }
    // Empty lines before a message: the codec takes one, before a request (RFC 9112, 2.2).
    if (refused.starts_with('\n') || refused.starts_with('\r')) {
        return true;
    }
    switch (ours.error) {
    case Error::missing_host:
    case Error::invalid_host:
    case Error::invalid_target: // "*" with any method, a user before the host
    case Error::invalid_reason: // control characters
    case Error::invalid_status: // below 100
    case Error::too_many_fields:
    case Error::unexpected_framing: // Transfer-Encoding in HTTP/1.0, 1xx, 204
    case Error::unexpected_body:
    case Error::invalid_content_length:      // from 2^63 to 2^64 - 1
    case Error::invalid_transfer_coding:     // "chunked" twice
    case Error::unsupported_transfer_coding: // "gzip, chunked"
    case Error::invalid_chunk_extension:     // a quote within a token
    case Error::invalid_trailer:             // that would change the framing
        return true;
    case Error::invalid_version:
        return refused.find("  HTTP/") != std::string_view::npos; // two spaces before it
    default:
        return false;
    }
}

/// Whether llhttp refused for a reason of its own what the codec read as `ours`.
bool limit_of_llhttp(Direction direction, const Message& ours, std::string_view reason) {
    return reason == "HPE_INVALID_METHOD" || // llhttp has a list of methods; RFC 9110, 9.1, has not
           reason == "HPE_CLOSED_CONNECTION" ||                            // by a trailer
           (reason == "HPE_INVALID_VERSION" && ours.minor_version == 1) || // 1.2 to 1.9
           // Both Content-Length and Transfer-Encoding, which this answer's reader ignores (RFC
           // 9110, 9.3.6).
           (direction == Direction::responses_to_connect && ours.upgrade);
}

/// Whether a field Connection has a quote, which hides commas from the codec but not from llhttp.
bool quotes_in_connection(const Message& message) {
    return std::ranges::any_of(message.fields, [](const auto& field) {
        return equal_ignoring_case(field.first, "connection") &&
               field.second.find('"') != std::string::npos;
    });
}

/// Whether a field of transfer codings has no element. It means nothing (RFC 9110, 5.6.1).
bool has_field_without_coding(std::string_view bytes) {
    constexpr std::string_view name = "transfer-encoding:";
    std::string lower(bytes);
    std::ranges::transform(lower, lower.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (std::size_t at = lower.find(name); at != std::string::npos;
         at = lower.find(name, at + 1)) {
        const std::size_t value = lower.find_first_not_of(" ,", at + name.size());
        if (value != std::string::npos && (lower[value] == '\r' || lower[value] == '\n')) {
            return true;
        }
    }
    return false;
}

/// Whether a list of transfer codings has an empty element beside "chunked", which means nothing
/// (RFC 9110, 5.6.1). llhttp refuses such a request, and reads such a response up to the end of the
/// connection.
bool has_empty_coding(std::string_view bytes) {
    constexpr std::string_view coding = "chunked";
    for (std::size_t at = bytes.find(coding); at != std::string_view::npos;
         at = bytes.find(coding, at + 1)) {
        const std::string_view before = bytes.substr(0, at);
        const std::size_t left = before.find_last_not_of(' ');
        const std::size_t right = bytes.find_first_not_of(' ', at + coding.size());
        if ((left != std::string_view::npos && bytes[left] == ',') ||
            (right != std::string_view::npos && bytes[right] == ',')) {
            return true;
        }
    }
    return false;
}

std::string text_of(const Reading& reading) {
    std::string text;
    for (const Message& message : reading.messages) {
        text += "\n  " + message.start + " HTTP/1." + std::to_string(message.minor_version);
        for (const auto& [name, value] : message.fields) {
            text.append(" ").append(name).append("=").append(value);
        }
        text += " body:" + message.body;
        for (const auto& [name, value] : message.trailers) {
            text.append(" ").append(name).append("=").append(value);
        }
        text += message.keep_alive ? " keep-alive" : "";
        text += message.upgrade ? " upgrade" : "";
    }
    constexpr std::array ends = {"incomplete", "closing", "upgraded", "failed"};
    text += "\n  then " + std::string(ends[static_cast<std::size_t>(reading.end)]) +
            " body:" + reading.begun + " " + std::string(describe(reading.error)) + reading.reason;
    return text;
}

} // namespace

Reading read_by_codec(Direction direction, std::string_view bytes, std::size_t step) {
    CodecReader reader(direction);
    while (!bytes.empty() && reader.take(bytes.substr(0, step))) {
        bytes.remove_prefix(std::min(step, bytes.size()));
    }
    return reader.reading;
}

Reading read_by_llhttp(Direction direction, std::string_view bytes) {
    LlhttpReader reader(direction);
    const llhttp_errno_t error = llhttp_execute(&reader.parser, bytes.data(), bytes.size());
    if (error != HPE_OK && reader.reading.end == Reading::End::incomplete) {
        reader.reading.end = Reading::End::failed;
        reader.reading.reason = llhttp_errno_name(error);
    }
    return reader.reading;
}

std::string unexplained_difference(Direction direction, std::string_view bytes) {
    const Reading ours = read_by_codec(direction, bytes, bytes.size());
    const Reading judge = read_by_llhttp(direction, bytes);
    const auto differ = [&](std::string_view how) {
        if (has_empty_coding(bytes) || has_field_without_coding(bytes)) {
            return std::string();
        }
        return std::string(how) + "\nthe codec:" + text_of(ours) + "\nllhttp:" + text_of(judge);
    };
    const std::size_t common = std::min(ours.messages.size(), judge.messages.size());
    for (std::size_t i = 0; i < common; ++i) {
        if (ours.messages[i] != judge.messages[i]) {
            return quotes_in_connection(ours.messages[i]) ? "" : differ("a message differs");
        }
    }
    if (ours.messages.size() > common) {
        const bool explained = judge.end == Reading::End::failed &&
                               limit_of_llhttp(direction, ours.messages[common], judge.reason);
        return explained ? "" : differ("only the codec reads a message");
    }
    if (judge.messages.size() > common) {
        const bool explained =
            ours.end == Reading::End::failed && stricter_on_purpose(ours, judge.messages[common]);
        return explained ? "" : differ("only llhttp reads a message");
    }
    if (ours.end == Reading::End::incomplete && judge.end == ours.end &&
        ours.begun != judge.begun) {
        return differ("a body is read otherwise");
    }
    return {};
}

} // namespace penstock::testing
