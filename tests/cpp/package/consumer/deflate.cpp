#include <cstdio>
#include <span>
#include <string>

#include <penstock/codec/byte_buffer.hpp>
#include <penstock/codec/websocket/deflate.hpp>

int main() {
    const std::string text(1000, 'x');
    penstock::codec::ByteBuffer compressed;
    penstock::codec::websocket::Deflater deflater(15, false);
    deflater.deflate(std::as_bytes(std::span(text)), true, compressed);
    std::printf("%zu bytes\n", compressed.size());
    return compressed.size() < text.size() ? 0 : 1;
}
