#include <cstdio>
#include <string>

#include <penstock/buf_reader.hpp> // a former name
#include <penstock/penstock.hpp>

using penstock::Result;
using penstock::Task;
namespace net = penstock::net;

static Task<Result<std::string>> talk() {
    auto listener = net::TcpListener::listen(net::Endpoint::loopback(0));
    if (!listener) {
        co_return penstock::failure(listener.error());
    }
    auto ends = co_await penstock::all(listener->accept(),
                                       net::TcpStream::connect(*listener->local_endpoint()));
    if (!ends) {
        co_return penstock::failure(ends.error());
    }
    auto& [server, client] = *ends;
    if (auto sent = co_await client.write_all("found"); !sent) {
        co_return penstock::failure(sent.error());
    }
    std::string text(5, ' ');
    if (auto filled = co_await server.read_exactly(text); !filled) {
        co_return penstock::failure(filled.error());
    }
    co_return text;
}

int main() {
    const Result<std::string> text = penstock::run(talk());
    std::puts(text ? text->c_str() : text.error().message().c_str());
    return text == "found" ? 0 : 1;
}
