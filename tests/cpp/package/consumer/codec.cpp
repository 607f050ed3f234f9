#include <cstdio>
#include <iterator>

#include <penstock/codec/websocket/frame.hpp>

int main() {
    const penstock::codec::websocket::FrameHeader header(penstock::codec::websocket::Opcode::text,
                                                         5);
    std::printf("a head of %zu bytes\n", std::size(header.bytes()));
    return std::size(header.bytes()) == 2 ? 0 : 1;
}
