#include <penstock/codec/http/response_parser.hpp>

#include <array>

#include "fuzz/http_conversation.hpp"

namespace {

using namespace penstock::codec::http;
using namespace penstock::testing;

std::string conversation(std::string_view text, std::size_t step, ResponseParser::To request) {
    std::array<Field, 16> storage;
    ResponseParser parser(storage, {.line = 512, .head = 2048, .chunk_extensions = 64});
    return describe_messages(
        text, step, [&](std::string_view& input, BodyFraming& framing, std::string& said) {
            const Progress progress = parser.parse(input, request);
            if (progress == Progress::failed) {
                require(parser.error() != Error::none);
                said += "failed";
            } else if (progress == Progress::complete) {
                const ResponseHead& head = parser.head();
                require(head.size <= input.size() && head.status >= 100 && head.status <= 999);
                said += std::to_string(head.status) + std::string(head.reason) + " ";
                describe_head(head, said);
                framing = head.body;
                input.remove_prefix(head.size);
            }
            return progress;
        });
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    FuzzedInput input(data, size);
    const std::size_t step = 1 + input.choice() % 64;
    const auto request = static_cast<ResponseParser::To>(input.choice() % 3);
    const std::string_view text = input.text();
    require(conversation(text, step, request) == conversation(text, text.size() + 5, request));
    return 0;
}
