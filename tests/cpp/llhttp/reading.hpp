#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/codec/http/error.hpp>

/// What the codec and llhttp make of the bytes of one direction of a connection.
namespace penstock::testing {

/// What the bytes are, and for responses what they answer: the framing depends on that.
enum class Direction : std::uint8_t {
    requests,
    responses,
    responses_to_head,
    responses_to_connect
};

struct Message {
    std::string start; ///< method and target, or status and reason
    int major_version = 1;
    int minor_version = 1;
    std::vector<std::pair<std::string, std::string>> fields;
    std::string body;
    std::vector<std::pair<std::string, std::string>> trailers;
    bool keep_alive = false;
    bool upgrade = false;

    bool operator==(const Message&) const = default;
};

struct Reading {
    enum class End : std::uint8_t {
        incomplete, ///< another message may follow, or the rest of one
        closing,    ///< after a message that is the last one of the connection
        upgraded,   ///< after a message that ends HTTP on the connection
        failed,
    };
    std::vector<Message> messages; ///< the whole ones
    std::string begun;             ///< the body so far of one that is not whole
    End end = End::incomplete;
    codec::http::Error error = codec::http::Error::none; ///< the codec's, if it failed
    std::string refused;                                 ///< from the message on that failed
    std::string reason;                                  ///< llhttp's, if it failed
};

/// `step`: the size of the parts in which the bytes arrive.
[[nodiscard]] Reading read_by_codec(Direction direction, std::string_view bytes, std::size_t step);

[[nodiscard]] Reading read_by_llhttp(Direction direction, std::string_view bytes);

/// Where the codec reads the bytes in another way than llhttp without a reason that is known; empty
/// if nowhere. What the codec refuses, llhttp may read only where the codec is stricter on purpose;
/// what the codec reads, llhttp must read alike.
[[nodiscard]] std::string unexplained_difference(Direction direction, std::string_view bytes);

} // namespace penstock::testing
