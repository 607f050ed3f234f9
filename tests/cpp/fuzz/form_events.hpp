#pragma once

#include <string>
#include <string_view>

#include <penstock/codec/http/multipart_decoder.hpp>
#include <penstock/codec/http/urlencoded_decoder.hpp>

namespace penstock::testing {

/// What a multipart form says, read in pieces of `step` bytes: its events, with adjacent data
/// joined.
inline std::string multipart_events(std::string_view wire, std::string_view boundary,
                                    const codec::http::FormLimits& limits, std::size_t step) {
    using Kind = codec::http::MultipartDecoder::Event::Kind;
    codec::http::MultipartDecoder decoder(boundary, limits);
    std::string said;
    while (!wire.empty()) {
        const std::string piece(wire.substr(0, step));
        wire.remove_prefix(piece.size());
        std::string_view input = piece;
        for (;;) {
            const auto event = decoder.next(input);
            if (event.kind == Kind::failed) {
                return said + "[failed: " + std::string(describe(decoder.error())) + "]";
            }
            if (event.kind == Kind::incomplete) {
                break;
            }
            if (event.kind == Kind::part) {
                const codec::http::FormPart& part = decoder.part();
                said += "[part " + part.name;
                said += part.file_name ? " file " + *part.file_name : std::string();
                said += " " + part.content_type + "]";
            } else if (event.kind == Kind::data) {
                said += event.data;
            } else {
                said += "[end]";
            }
        }
        if (!input.empty()) {
            return said + "[input is left]";
        }
    }
    return said + (decoder.finish() ? "[complete]"
                                    : "[failed: " + std::string(describe(decoder.error())) + "]");
}

/// The same of application/x-www-form-urlencoded.
inline std::string urlencoded_events(std::string_view wire, const codec::http::FormLimits& limits,
                                     std::size_t step) {
    using Kind = codec::http::UrlencodedDecoder::Event::Kind;
    codec::http::UrlencodedDecoder decoder(limits);
    std::string said;
    const auto tell = [&said, &decoder](const codec::http::UrlencodedDecoder::Event& event) {
        if (event.kind == Kind::pair) {
            said += "[" + std::string(event.name) + "=" + std::string(event.value) + "]";
        } else if (event.kind == Kind::failed) {
            said += "[failed: " + std::string(describe(decoder.error())) + "]";
        }
        return event.kind == Kind::pair;
    };
    while (!wire.empty()) {
        const std::string piece(wire.substr(0, step));
        wire.remove_prefix(piece.size());
        std::string_view input = piece;
        while (tell(decoder.next(input))) {
        }
        if (decoder.error() != codec::http::FormError::none) {
            return said;
        }
    }
    while (tell(decoder.finish())) {
    }
    return said;
}

} // namespace penstock::testing
