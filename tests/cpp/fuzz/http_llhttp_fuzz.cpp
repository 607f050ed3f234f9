#include <cstdio>

#include "fuzz/fuzzed_input.hpp"
#include "llhttp/reading.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace penstock::testing;
    FuzzedInput input(data, size);
    const auto direction = static_cast<Direction>(input.choice() % 4);
    const std::string difference = unexplained_difference(direction, input.text());
    if (!difference.empty()) {
        std::fprintf(stderr, "%s\n", difference.c_str());
    }
    require(difference.empty());
    return 0;
}
