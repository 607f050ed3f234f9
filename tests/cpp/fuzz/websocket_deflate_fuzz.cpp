#include <penstock/codec/http/request_parser.hpp>
#include <penstock/codec/websocket/deflate.hpp>
#include <penstock/codec/websocket/permessage_deflate.hpp>

#include <algorithm>
#include <array>
#include <string>

#include "fuzz/fuzzed_input.hpp"

namespace {

using namespace penstock::codec;
using namespace penstock::codec::websocket;
using namespace penstock::testing;
using Outcome = MessageInflater::Outcome;

constexpr std::uint64_t limit = 65536;

/// Any data: an outcome, and never more than one byte beyond the limit.
void inflate_anything(std::span<const std::byte> data, int bits, bool reset, std::size_t step) {
    Inflater inflater(bits, reset);
    ByteBuffer output;
    while (!data.empty()) {
        const std::size_t taken = std::min(step, data.size());
        const Outcome outcome =
            inflater.inflate(data.first(taken), taken == data.size(), output, limit);
        require(output.size() <= limit + 1);
        if (outcome != Outcome::done) {
            return;
        }
        data = data.subspan(taken);
    }
}

/// What one end compresses, the other restores, message after message.
void restore(std::span<const std::byte> data, int bits, bool reset, std::size_t step) {
    Deflater deflater(bits, reset, {.level = 1 + static_cast<int>(step % 9), .memory_level = 1});
    Inflater inflater(bits, reset);
    for (int round = 0; round < 3; ++round) {
        ByteBuffer compressed;
        deflater.deflate(data.first(std::min(step, data.size())), false, compressed);
        deflater.deflate(data.subspan(std::min(step, data.size())), true, compressed);
        ByteBuffer restored;
        require(inflater.inflate(compressed.bytes(), true, restored, data.size()) == Outcome::done);
        require(std::ranges::equal(restored.bytes(), data));
    }
}

/// Any offer: what is agreed upon is within the bounds, and its answer is one that the client
/// accepts.
void negotiate(std::string_view text) {
    std::array<http::Field, 1> fields{http::Field{"Sec-WebSocket-Extensions", text}};
    const auto agreement = accept_offer(http::Fields(fields));
    if (!agreement) {
        return;
    }
    require(agreement->parameters.server_max_window_bits >= 8 &&
            agreement->parameters.server_max_window_bits <= 15);
    fields[0].value = agreement->response;
    const DeflateAnswer answer = check_answer(http::Fields(fields), DeflateParameters{});
    require(answer.valid && answer.parameters == agreement->parameters);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    FuzzedInput input(data, size);
    const std::uint8_t choice = input.choice();
    const int bits = 8 + choice % 8;
    const bool reset = (choice & 16) != 0;
    const std::size_t step = 1 + input.choice();
    const std::span<const std::byte> bytes = std::as_bytes(std::span(input.text()));
    inflate_anything(bytes, bits, reset, step);
    restore(bytes, bits, reset, step);
    negotiate(input.text());
    return 0;
}
