// The servers of the C++ pages with Asio's blocking calls: a thread for each connection.

#include "job.hpp"
#include "until_stdin_ends_asio.hpp"

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <asio.hpp>

namespace {

using asio::ip::tcp;

void echo(tcp::socket& socket) {
    const auto buffer = std::make_unique_for_overwrite<char[]>(bench::kConnectionBuffer);
    asio::error_code error;
    for (;;) {
        const std::size_t size =
            socket.read_some(asio::buffer(buffer.get(), bench::kConnectionBuffer), error);
        if (error) {
            return;
        }
        asio::write(socket, asio::buffer(buffer.get(), size), error);
        if (error) {
            return;
        }
    }
}

void send_without_end(tcp::socket& socket, const std::string& message) {
    asio::error_code error;
    while (!error) {
        asio::write(socket, asio::buffer(message), error);
    }
}

void accept_all(tcp::acceptor& acceptor, const bench::Job& job, const std::string& message) {
    for (;;) {
        tcp::socket socket = acceptor.accept();
        socket.set_option(tcp::no_delay(true));
        std::thread([&job, &message, socket = std::move(socket)]() mutable {
            if (job.is_echo()) {
                echo(socket);
            } else {
                send_without_end(socket, message);
            }
        }).detach();
    }
}

} // namespace

int main(int argc, char** argv) {
    return bench::run_server(argc, argv, [](const bench::Job& job) {
        asio::io_context context;
        const std::string message = bench::source_message(job.message);
        tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
        std::thread(accept_all, std::ref(acceptor), std::cref(job), std::cref(message)).detach();
        const bench::UntilStdinEnds input(context);
        bench::report_port(acceptor.local_endpoint().port());
        context.run();
        // The threads still wait for their connections and use what is in this frame.
        std::_Exit(0);
    });
}
