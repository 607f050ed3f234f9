#include <string>
#include <string_view>

#include "fuzz/form_events.hpp"
#include "fuzz/fuzzed_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace penstock::testing;
    FuzzedInput input(data, size);
    const std::size_t step = 1 + input.choice() % 32;
    // Of one character too, which data often has.
    const std::string_view boundary = input.choice() % 2 == 0 ? "b" : "-";
    const std::size_t total = 1 + 8 * std::size_t{input.choice()};
    const std::string_view wire = input.text();
    const penstock::codec::http::FormLimits limits{.parts = 4,
                                                   .part_head = 256,
                                                   .part_fields = 4,
                                                   .name = 32,
                                                   .value = 64,
                                                   .file = 128,
                                                   .total = total,
                                                   .surroundings = 32};
    require(multipart_events(wire, boundary, limits, step) ==
            multipart_events(wire, boundary, limits, wire.size() + 1));
    const auto found = penstock::codec::http::multipart_boundary(wire);
    require(!found || (!found->empty() && found->size() <= 70));
    return 0;
}
