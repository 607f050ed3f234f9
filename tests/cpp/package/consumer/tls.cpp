#include <cstdio>

#include <penstock/penstock.hpp>
#include <penstock/tls/stream.hpp>

using Encrypted = penstock::tls::Stream<penstock::net::TcpStream>;

int main() {
    const auto context = penstock::tls::Context::client();
    std::puts(context ? "made" : context.error().message().c_str());
    return context && sizeof(Encrypted) > 0 ? 0 : 1;
}
