// The server of the TLS page with Asio's coroutines. Takes the files of a certificate and its key.

#include "job.hpp"
#include "until_stdin_ends_asio.hpp"

#include <memory>
#include <utility>

#include <asio.hpp>
#include <asio/ssl.hpp>

namespace {

using asio::ip::tcp;
namespace ssl = asio::ssl;

// A context for one thread, without locks (Asio's documentation, "Concurrency Hints").
constexpr int kOneThread = ASIO_CONCURRENCY_HINT_UNSAFE;

asio::awaitable<void> echo(tcp::socket socket, ssl::context& context) {
    ssl::stream<tcp::socket> stream(std::move(socket), context);
    asio::error_code error;
    co_await stream.async_handshake(ssl::stream_base::server,
                                    asio::redirect_error(asio::use_awaitable, error));
    const auto buffer = std::make_unique_for_overwrite<char[]>(bench::kConnectionBuffer);
    while (!error) {
        const std::size_t size =
            co_await stream.async_read_some(asio::buffer(buffer.get(), bench::kConnectionBuffer),
                                            asio::redirect_error(asio::use_awaitable, error));
        if (error) {
            co_return;
        }
        co_await asio::async_write(stream, asio::buffer(buffer.get(), size),
                                   asio::redirect_error(asio::use_awaitable, error));
    }
}

asio::awaitable<void> serve(tcp::acceptor& acceptor, ssl::context& context) {
    for (;;) {
        tcp::socket socket = co_await acceptor.async_accept(asio::use_awaitable);
        socket.set_option(tcp::no_delay(true));
        asio::co_spawn(acceptor.get_executor(), echo(std::move(socket), context), asio::detached);
    }
}

} // namespace

int main(int argc, char** argv) {
    return bench::run_tls_server(argc, argv, [](const char* certificate, const char* key) {
        asio::io_context context(kOneThread);
        ssl::context encryption(ssl::context::tls_server);
        encryption.use_certificate_chain_file(certificate);
        encryption.use_private_key_file(key, ssl::context::pem);
        tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
        asio::co_spawn(context, serve(acceptor, encryption), asio::detached);
        const bench::UntilStdinEnds input(context);
        bench::report_port(acceptor.local_endpoint().port());
        context.run();
    });
}
