#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include <penstock/codec/http/body_decoder.hpp>

#include "fuzz/fuzzed_input.hpp"

namespace penstock::testing {

/// Everything that a parser and a body decoder say about the messages in `bytes`, which arrives in
/// parts of `step` bytes. A parse in any parts must say the same.
template <typename Parse>
std::string describe_messages(std::string_view bytes, std::size_t step, Parse parse) {
    // A head in parts is judged again only when it has ended.
    const std::string ended = std::string(bytes) + "\r\n\r\n";
    std::string_view text = ended;
    using Kind = codec::http::BodyDecoder::Part::Kind;
    std::string said;
    std::string buffer;
    codec::http::BodyDecoder body;
    bool in_head = true;
    for (;;) {
        std::string_view input = buffer;
        if (in_head) {
            codec::http::BodyFraming framing;
            const codec::http::Progress progress = parse(input, framing, said);
            if (progress == codec::http::Progress::failed) {
                return said;
            }
            if (progress == codec::http::Progress::complete) {
                body = codec::http::BodyDecoder(framing);
                in_head = false;
            }
        }
        bool more = in_head;
        while (!more && !in_head) {
            const codec::http::BodyDecoder::Part part = body.next(input);
            switch (part.kind) {
            case Kind::data:
                require(!part.data.empty());
                said += part.data;
                break;
            case Kind::incomplete:
                more = true;
                break;
            case Kind::failed:
                return said + "|" + std::string(describe(body.error()));
            case Kind::end:
                for (const codec::http::Field& field : body.trailers()) {
                    said += std::string(field.name) + "=" + std::string(field.value) + ";";
                }
                said += "|end|";
                in_head = true;
                break;
            }
        }
        buffer = std::string(input);
        if (more) {
            if (text.empty()) {
                return said;
            }
            buffer += text.substr(0, step);
            text.remove_prefix(std::min(step, text.size()));
        }
    }
}

inline void describe_head(const codec::http::Head& head, std::string& said) {
    for (const codec::http::Field& field : head.fields) {
        said += std::string(field.name) + ":" + std::string(field.value) + ";";
    }
    said += std::to_string(static_cast<int>(head.body.kind)) + std::to_string(head.body.length) +
            (head.keep_alive ? "k" : "c") + (head.upgrade ? "u" : "") + "|";
}

} // namespace penstock::testing
