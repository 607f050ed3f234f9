// The servers of the C++ pages with penstock::penstock.

#include "job.hpp"
#include "standard_input_penstock.hpp"

#include <system_error>

#include <penstock/penstock.hpp>

namespace {

using penstock::Chunk;
using penstock::Result;
using penstock::Scope;
using penstock::Task;
namespace net = penstock::net;

Task<> echo(net::TcpStream stream) {
    while (Result<Chunk> chunk = co_await stream.receive()) {
        if (chunk->empty() || !co_await stream.write_all(*chunk)) {
            co_return;
        }
    }
}

Task<> send_for_ever(net::TcpStream stream, const std::string& message) {
    while (co_await stream.write_all(message)) {
    }
}

Task<Result<>> serve(bench::Job job) {
    const std::string message = bench::source_message(job.message);
    Result<net::TcpListener> listener = net::TcpListener::listen(net::Endpoint::loopback(0));
    if (!listener) {
        co_return penstock::failure(listener.error());
    }
    co_return co_await penstock::with_scope([&](Scope& scope) -> Task<Result<>> {
        const bench::StandardInput input(scope);
        bench::report_port(listener->local_endpoint()->port());
        for (;;) {
            Result<net::TcpStream> stream = co_await listener->accept();
            if (!stream) {
                co_return penstock::failure(stream.error());
            }
            scope.spawn(job.is_echo() ? echo(std::move(*stream))
                                      : send_for_ever(std::move(*stream), message));
        }
    });
}

} // namespace

int main(int argc, char** argv) {
    return bench::run_server(argc, argv, [](const bench::Job& job) {
        if (const Result<> served = penstock::run(serve(job)); !served) {
            throw std::system_error(served.error());
        }
    });
}
