#include <penstock/codec/http/request_parser.hpp>

#include <array>

#include "fuzz/http_conversation.hpp"

namespace {

using namespace penstock::codec::http;
using namespace penstock::testing;

std::string conversation(std::string_view text, std::size_t step) {
    std::array<Field, 16> storage;
    RequestParser parser(storage, {.line = 512, .head = 2048, .chunk_extensions = 64});
    return describe_messages(
        text, step, [&](std::string_view& input, BodyFraming& framing, std::string& said) {
            const Progress progress = parser.parse(input);
            if (progress == Progress::failed) {
                require(parser.error() != Error::none && status_for(parser.error()) >= 400);
                said += "failed";
            } else if (progress == Progress::complete) {
                const RequestHead& head = parser.head();
                require(head.size <= input.size() && !head.method.empty() && !head.target.empty());
                said += std::string(head.method) + " " + std::string(head.target) + " ";
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
    const std::string_view text = input.text();
    require(conversation(text, step) == conversation(text, text.size() + 5));
    return 0;
}
