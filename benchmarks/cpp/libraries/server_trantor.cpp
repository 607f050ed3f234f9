// The echo server of the C++ pages with Trantor, the network layer of Drogon: callbacks, one event
// loop.
//
// It has no server that sends without a pause: Trantor 1.5.28 has a callback for a completed write
// and never calls it.

#include "job.hpp"

#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>

#include <trantor/net/EventLoop.h>
#include <trantor/net/TcpServer.h>

namespace {

void echo(const trantor::TcpConnectionPtr& connection, trantor::MsgBuffer* received) {
    connection->send(received->peek(), received->readableBytes());
    received->retrieveAll();
}

} // namespace

int main(int argc, char** argv) {
    return bench::run_server(argc, argv, [](const bench::Job& job) {
        if (!job.is_echo()) {
            throw std::invalid_argument("Trantor does not tell when a write is complete");
        }
        trantor::EventLoop loop;
        trantor::TcpServer server(&loop, trantor::InetAddress("127.0.0.1", 0), "bench");
        server.setConnectionCallback([](const trantor::TcpConnectionPtr& connection) {
            if (connection->connected()) {
                connection->setTcpNoDelay(true);
            }
        });
        server.setRecvMessageCallback(echo);
        server.start();
        // Its loop takes no descriptor of others, so a thread waits for the end of the input.
        std::thread([&loop] {
            std::string ignored;
            while (std::getline(std::cin, ignored)) {
            }
            loop.quit();
        }).detach();
        bench::report_port(server.address().toPort());
        loop.loop();
    });
}
