// The server of the WebSocket page with Drogon: a controller, as in its documentation, on one event
// loop beside that of its listener. It has no permessage-deflate.

#include "job.hpp"

#include <filesystem>
#include <iostream>
#include <string>
#include <thread>

#include <drogon/HttpAppFramework.h>
#include <drogon/WebSocketController.h>
#include <unistd.h>

namespace {

using drogon::HttpRequestPtr;
using drogon::WebSocketConnectionPtr;
using drogon::WebSocketMessageType;

class Echo : public drogon::WebSocketController<Echo> {
public:
    void handleNewMessage(const WebSocketConnectionPtr& connection, std::string&& message,
                          const WebSocketMessageType& type) override {
        if (type == WebSocketMessageType::Text || type == WebSocketMessageType::Binary) {
            connection->send(message, type);
        }
    }

    void handleNewConnection(const HttpRequestPtr& /*request*/,
                             const WebSocketConnectionPtr& /*connection*/) override {}

    void handleConnectionClosed(const WebSocketConnectionPtr& /*connection*/) override {}

    // Its macros register the class by the name of these functions.
    WS_PATH_LIST_BEGIN
    WS_PATH_ADD("/", drogon::Get);
    WS_PATH_LIST_END
};

} // namespace

int main() {
    // It makes folders for uploads at its start, by default where it is started.
    const std::filesystem::path uploads =
        std::filesystem::temp_directory_path() / ("websocket_drogon-" + std::to_string(getpid()));
    drogon::HttpAppFramework& application = drogon::app();
    application.setUploadPath(uploads.string());
    application.setLogLevel(trantor::Logger::kWarn);
    application.addListener("127.0.0.1", 0);
    application.setThreadNum(1);
    // Drogon calls its advices before it listens. The loop calls this after it.
    application.registerBeginningAdvice([&application] {
        application.getLoop()->queueInLoop(
            [&application] { bench::report_port(application.getListeners().front().toPort()); });
    });
    // Its loops take no descriptor of others, so a thread waits for the end of the input.
    std::thread([&application] {
        std::string ignored;
        while (std::getline(std::cin, ignored)) {
        }
        application.quit();
    }).detach();
    application.run();
    std::filesystem::remove_all(uploads);
}
