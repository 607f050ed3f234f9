// The servers of the C++ pages on penstock::penstock.

#include "job.hpp"

#include <array>
#include <system_error>
#include <unistd.h>

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

// Ends the scope at the end of standard input.
struct StandardInput : penstock::io::Watch {
    explicit StandardInput(Scope& ended) : Watch(&on_event), scope(ended) {
        (void)penstock::EventLoop::current().poller().add(*this, STDIN_FILENO,
                                                          penstock::io::readable);
    }
    ~StandardInput() { penstock::EventLoop::current().poller().remove(*this); }
    StandardInput(const StandardInput&) = delete;
    StandardInput& operator=(const StandardInput&) = delete;

    static void on_event(penstock::io::Watch& watch, std::uint32_t /*events*/) {
        std::array<char, 4096> ignored{};
        if (::read(STDIN_FILENO, ignored.data(), ignored.size()) <= 0) {
            static_cast<StandardInput&>(watch).scope.cancel();
        }
    }

    Scope& scope;
};

Task<Result<>> serve(bench::Job job) {
    const std::string message = bench::source_message(job.message);
    Result<net::TcpListener> listener = net::TcpListener::listen(net::Endpoint::loopback(0));
    if (!listener) {
        co_return penstock::failure(listener.error());
    }
    co_return co_await penstock::with_scope([&](Scope& scope) -> Task<Result<>> {
        const StandardInput input(scope);
        bench::tell_port(listener->local_endpoint()->port());
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
