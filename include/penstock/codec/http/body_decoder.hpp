#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <penstock/codec/http/head.hpp>
#include <penstock/codec/http/limits.hpp>
#include <penstock/codec/http/request_parser.hpp>

namespace penstock::codec::http {

/// Finds the data of a body in the bytes after its head, without copying it.
///
///     http::BodyDecoder body(head.body);
///     for (;;) {
///         const auto part = body.next(received);   // takes what it used from the front
///         if (part.kind == BodyPart::Kind::data) use(part.data);
///         else break;                              // incomplete, end or failed
///     }
///
/// What is left in `received` after `end` belongs to the next message. After `incomplete`, bytes
/// may be left only in a trailer section that has not ended: present them again with those that
/// follow.
class BodyDecoder {
public:
    struct Part {
        enum class Kind : std::uint8_t {
            incomplete, ///< more bytes are needed
            data,       ///< `data`: a part of the body, never empty
            end,        ///< the body is complete; `trailers()` are valid while the input is
            failed,     ///< `error()` gives the reason
        };
        Kind kind = Kind::incomplete;
        std::string_view data;
    };

    /// Trailer fields beyond this number are refused.
    static constexpr std::size_t maximum_trailers = 16;

    explicit BodyDecoder(const BodyFraming& framing = {}, const Limits& limits = {}) noexcept;

    /// Takes the next part from the front of `input`.
    [[nodiscard]] Part next(std::string_view& input) noexcept;

    /// The connection was closed. True if the body is complete by that, or was before.
    [[nodiscard]] bool finish() noexcept;

    [[nodiscard]] bool ended() const noexcept { return state_ == State::ended; }
    [[nodiscard]] Error error() const noexcept { return error_; }
    [[nodiscard]] Fields trailers() const noexcept {
        return Fields(std::span(storage_).first(trailer_count_));
    }

private:
    enum class State : std::uint8_t {
        length,
        until_close,
        size_begin,
        size,
        extension_name,
        extension_value,
        extension_quoted,
        extension_escape,
        extension_end,
        size_line_feed,
        data,
        data_carriage_return,
        data_line_feed,
        trailers,
        ended,
        failed,
    };

    [[nodiscard]] Part take(std::string_view& input, State after) noexcept;
    [[nodiscard]] bool step(char c) noexcept;
    [[nodiscard]] bool step_in_extension(char c) noexcept;
    [[nodiscard]] Part parse_trailers(std::string_view& input) noexcept;
    bool fail(Error error) noexcept;

    State state_;
    Error error_ = Error::none;
    std::uint64_t remaining_ = 0;
    std::size_t extension_size_ = 0;      // of all extensions of the body
    std::size_t extension_part_size_ = 0; // of the name or value that has begun
    Limits limits_;
    HeadScanner scanner_;
    std::size_t trailer_count_ = 0;
    std::array<Field, maximum_trailers> storage_;
};

} // namespace penstock::codec::http
