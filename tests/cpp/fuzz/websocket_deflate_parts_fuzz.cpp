#include <penstock/codec/websocket/deflate.hpp>
#include <penstock/codec/websocket/message_decoder.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/fuzzed_input.hpp"

namespace {

using namespace penstock::codec::websocket;
using namespace penstock::testing;
using Event = MessageDecoder::Event;
using Kind = MessageDecoder::Kind;

constexpr std::uint64_t maximum = 65536;
/// A part of a compressed message ends beyond 64 KiB; 1 KiB of input adds at most 1032 times that.
constexpr std::size_t largest_part = 65536 + 1032 * 1024;

struct Conversation {
    Role role;
    bool compression;
    bool reset; ///< no context takeover
    int bits;
    std::size_t step; ///< bytes that arrive together
    std::string_view wire;
};

bool is_message(const Event& event) {
    return event.kind == Kind::text || event.kind == Kind::binary;
}

/// What a decoder has said: whole messages, control frames, and the code of the failure.
class Heard {
public:
    void add(const Event& event) {
        const auto* payload = reinterpret_cast<const char*>(event.payload.data());
        events_.push_back(std::to_string(static_cast<int>(event.kind)) + "," +
                          std::to_string(event.code) + "," +
                          std::string(payload, event.payload.size()));
    }
    void fail(std::uint16_t code) {
        require(may_be_sent(code));
        failure_ = code;
    }
    [[nodiscard]] std::uint16_t failure() const { return failure_; }
    /// Whether this is where `longer` would be had it failed earlier.
    [[nodiscard]] bool begins(const Heard& longer) const {
        return events_.size() <= longer.events_.size() &&
               std::equal(events_.begin(), events_.end(), longer.events_.begin());
    }
    bool operator==(const Heard&) const = default;

private:
    std::vector<std::string> events_;
    std::uint16_t failure_ = 0;
};

/// Calls `next(decoder, input)` for each event and `hear(event)` with it.
Heard decode(const Conversation& conversation, std::size_t step, std::uint64_t limit,
             const auto& next, const auto& hear) {
    std::optional<Inflater> inflater;
    if (conversation.compression) {
        inflater.emplace(conversation.bits, conversation.reset);
    }
    MessageDecoder decoder(conversation.role, limit, inflater ? &*inflater : nullptr);
    Heard heard;
    std::string_view wire = conversation.wire;
    while (!wire.empty()) {
        std::string part(wire.substr(0, step));
        wire.remove_prefix(part.size());
        std::span<std::byte> input = std::as_writable_bytes(std::span(part));
        for (;;) {
            const Event event = next(decoder, input);
            if (event.kind == Kind::incomplete) {
                require(input.empty());
                break;
            }
            if (event.kind == Kind::failed) {
                heard.fail(decoder.failure().code);
                return heard;
            }
            hear(heard, event);
        }
    }
    return heard;
}

Heard whole_messages(const Conversation& conversation) {
    return decode(
        conversation, conversation.wire.size() + 1, maximum,
        [](MessageDecoder& decoder, std::span<std::byte>& input) { return decoder.next(input); },
        [](Heard& heard, const Event& event) {
            require(event.payload.size() <= maximum);
            heard.add(event);
        });
}

Heard joined_parts(const Conversation& conversation) {
    std::string message;
    bool inside = false;
    Kind kind = Kind::incomplete;
    return decode(
        conversation, conversation.step, std::uint64_t{1} << 32,
        [](MessageDecoder& decoder, std::span<std::byte>& input) {
            return decoder.next_part(input);
        },
        [&](Heard& heard, Event event) {
            if (!is_message(event)) {
                heard.add(event);
                return;
            }
            require(event.payload.size() <= largest_part);
            require(event.first != inside && (event.first || event.kind == kind));
            kind = event.kind;
            message.append(reinterpret_cast<const char*>(event.payload.data()),
                           event.payload.size());
            inside = !event.last;
            if (event.last) {
                event.payload = std::as_writable_bytes(std::span(message));
                heard.add(event);
                message.clear();
            }
        });
}

/// zlib follows a distance beyond a window of less than 15 bits as long as the byte is in the
/// output of the same call, so how the input is divided decides when it refuses.
bool refused_a_distance(const Conversation& conversation, const Heard& one, const Heard& other) {
    return conversation.compression && conversation.bits < 15 &&
           one.failure() == close_code::invalid_payload && one.begins(other);
}

} // namespace

/// The parts of messages, joined, are the messages, however the bytes arrive.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    FuzzedInput input(data, size);
    const std::uint8_t choice = input.choice();
    const Conversation conversation{.role = choice % 2 == 0 ? Role::server : Role::client,
                                    .compression = (choice & 2) != 0,
                                    .reset = (choice & 4) != 0,
                                    .bits = 8 + choice / 8 % 8,
                                    .step = 1U + input.choice() % 64,
                                    .wire = input.text()};
    const Heard joined = joined_parts(conversation);
    const Heard whole = whole_messages(conversation);
    // Whole messages are limited, parts are not.
    require(whole.failure() == close_code::message_too_big || joined == whole ||
            refused_a_distance(conversation, whole, joined) ||
            refused_a_distance(conversation, joined, whole));
    return 0;
}
