#include <span>
#include <string_view>

#include <penstock/codec/websocket/utf8.hpp>

#include "fuzz/form_events.hpp"
#include "fuzz/fuzzed_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace penstock::testing;
    FuzzedInput input(data, size);
    const std::size_t step = 1 + input.choice() % 32;
    const std::size_t total = 1 + 8 * std::size_t{input.choice()};
    const std::string_view wire = input.text();
    const penstock::codec::http::FormLimits limits{
        .parts = 4, .name = 16, .value = 64, .total = total};
    const std::string said = urlencoded_events(wire, limits, step);
    require(said == urlencoded_events(wire, limits, wire.size() + 1));
    penstock::codec::websocket::Utf8Validator validator;
    require(validator.add(std::as_bytes(std::span(said))) && validator.complete());
    return 0;
}
