// The server of the TLS page with penstock::tls. Takes the files of a certificate and its key.

#include "job.hpp"
#include "standard_input_penstock.hpp"

#include <system_error>
#include <utility>

#include <penstock/penstock.hpp>
#include <penstock/tls/stream.hpp>

namespace {

using penstock::Chunk;
using penstock::Result;
using penstock::Scope;
using penstock::Task;
using penstock::unwrap;
namespace net = penstock::net;
namespace tls = penstock::tls;

Task<> echo(net::TcpStream tcp, tls::Context context) {
    auto stream = co_await tls::Stream<net::TcpStream>::accept(std::move(tcp), std::move(context));
    if (!stream) {
        co_return;
    }
    while (Result<Chunk> chunk = co_await stream->receive()) {
        if (chunk->empty() || !co_await stream->write_all(*chunk)) {
            co_return;
        }
    }
}

Task<Result<>> serve(const tls::Context& context) {
    net::TcpListener listener =
        co_await unwrap(net::TcpListener::listen(net::Endpoint::loopback(0)));
    co_return co_await penstock::with_scope([&](Scope& scope) -> Task<Result<>> {
        const bench::StandardInput input(scope);
        bench::report_port(listener.local_endpoint()->port());
        for (;;) {
            scope.spawn(echo(co_await unwrap(listener.accept()), context));
        }
    });
}

} // namespace

int main(int argc, char** argv) {
    return bench::run_tls_server(argc, argv, [](const char* certificate, const char* key) {
        const auto context = tls::Context::server(
            {.identity = {.certificate_chain_file = certificate, .private_key_file = key}});
        if (!context) {
            throw std::system_error(context.error());
        }
        if (const Result<> served = penstock::run(serve(*context)); !served) {
            throw std::system_error(served.error());
        }
    });
}
