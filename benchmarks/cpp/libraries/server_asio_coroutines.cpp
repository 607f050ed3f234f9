// The servers of the C++ pages with Asio's coroutines, errors as values.

#include "job.hpp"
#include "until_stdin_ends_asio.hpp"

#include <memory>
#include <utility>

#include <asio.hpp>

namespace {

using asio::ip::tcp;

// A context for one thread, without locks (Asio's documentation, "Concurrency Hints").
constexpr int kOneThread = ASIO_CONCURRENCY_HINT_UNSAFE;

asio::awaitable<void> echo(tcp::socket socket) {
    const auto buffer = std::make_unique_for_overwrite<char[]>(bench::kConnectionBuffer);
    asio::error_code error;
    for (;;) {
        const std::size_t size =
            co_await socket.async_read_some(asio::buffer(buffer.get(), bench::kConnectionBuffer),
                                            asio::redirect_error(asio::use_awaitable, error));
        if (error) {
            co_return;
        }
        co_await asio::async_write(socket, asio::buffer(buffer.get(), size),
                                   asio::redirect_error(asio::use_awaitable, error));
        if (error) {
            co_return;
        }
    }
}

asio::awaitable<void> send_for_ever(tcp::socket socket, const std::string& message) {
    asio::error_code error;
    while (!error) {
        co_await asio::async_write(socket, asio::buffer(message),
                                   asio::redirect_error(asio::use_awaitable, error));
    }
}

asio::awaitable<void> serve(tcp::acceptor& acceptor, bench::Job job, const std::string& message) {
    for (;;) {
        tcp::socket socket = co_await acceptor.async_accept(asio::use_awaitable);
        socket.set_option(tcp::no_delay(true));
        asio::co_spawn(acceptor.get_executor(),
                       job.is_echo() ? echo(std::move(socket))
                                     : send_for_ever(std::move(socket), message),
                       asio::detached);
    }
}

} // namespace

int main(int argc, char** argv) {
    return bench::run_server(argc, argv, [](const bench::Job& job) {
        asio::io_context context(kOneThread);
        const std::string message = bench::source_message(job.message);
        tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
        asio::co_spawn(context, serve(acceptor, job, message), asio::detached);
        const bench::UntilStdinEnds input(context);
        bench::report_port(acceptor.local_endpoint().port());
        context.run();
    });
}
