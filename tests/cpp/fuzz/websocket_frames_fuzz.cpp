#include <penstock/codec/websocket/message_decoder.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "fuzz/fuzzed_input.hpp"

namespace {

using namespace penstock::codec::websocket;
using namespace penstock::testing;
using Kind = MessageDecoder::Kind;

constexpr std::uint64_t maximum = 4096;

bool is_utf8(std::span<const std::byte> text) {
    Utf8Validator validator;
    return validator.add(text) && validator.complete();
}

std::vector<std::string> events_of(Role role, std::string_view wire, std::size_t step) {
    MessageDecoder decoder(role, maximum);
    std::vector<std::string> events;
    while (!wire.empty()) {
        std::string part(wire.substr(0, step));
        wire.remove_prefix(part.size());
        std::span<std::byte> input = std::as_writable_bytes(std::span(part));
        for (;;) {
            const MessageDecoder::Event event = decoder.next(input);
            if (event.kind == Kind::incomplete) {
                require(input.empty());
                break;
            }
            const bool control = event.kind != Kind::text && event.kind != Kind::binary;
            require(event.payload.size() <= (control ? maximum_control_payload : maximum));
            require((event.kind != Kind::text && event.kind != Kind::close) ||
                    is_utf8(event.payload));
            const auto* payload = reinterpret_cast<const char*>(event.payload.data());
            events.push_back(std::to_string(static_cast<int>(event.kind)) + "," +
                             std::to_string(event.code) + "," +
                             std::string(payload, event.payload.size()));
            if (event.kind == Kind::failed) {
                require(may_be_sent(decoder.failure().code));
                return events;
            }
        }
    }
    return events;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    FuzzedInput input(data, size);
    const std::size_t step = 1 + input.choice() % 32;
    const Role role = input.choice() % 2 == 0 ? Role::server : Role::client;
    const std::string_view wire = input.text();
    require(events_of(role, wire, step) == events_of(role, wire, wire.size() + 1));
    return 0;
}
