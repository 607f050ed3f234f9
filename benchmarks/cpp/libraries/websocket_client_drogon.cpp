// The WebSocket client of the C++ pages with Drogon, on the event loop that it makes in the main
// thread.

#include "message_run.hpp"

#include <exception>
#include <stdexcept>
#include <string>

#include <drogon/HttpAppFramework.h>
#include <drogon/HttpRequest.h>
#include <drogon/WebSocketClient.h>
#include <trantor/net/EventLoop.h>

namespace {

using drogon::WebSocketMessageType;

class Client {
public:
    Client(trantor::EventLoop& loop, const bench::MessageOptions& options)
        : loop_(loop), run_(options),
          type_(options.text ? WebSocketMessageType::Text : WebSocketMessageType::Binary),
          client_(drogon::WebSocketClient::newWebSocketClient(
              "ws://127.0.0.1:" + std::to_string(options.address.port), &loop)) {
        client_->setMessageHandler([this](std::string&& message,
                                          const drogon::WebSocketClientPtr& /*client*/,
                                          const WebSocketMessageType& type) {
            // An exception must not pass through its loop.
            try {
                take(message, type);
            } catch (...) {
                end(std::current_exception());
            }
        });
        const drogon::HttpRequestPtr request = drogon::HttpRequest::newHttpRequest();
        request->setPath("/");
        client_->connectToServer(request, [this](drogon::ReqResult result,
                                                 const drogon::HttpResponsePtr& /*response*/,
                                                 const drogon::WebSocketClientPtr& /*client*/) {
            if (result == drogon::ReqResult::Ok) {
                send();
            } else {
                end(std::make_exception_ptr(std::runtime_error(drogon::to_string(result))));
            }
        });
    }

    void run() {
        loop_.loop();
        client_->stop();
        if (failure_) {
            std::rethrow_exception(failure_);
        }
    }

private:
    void send() { client_->getConnection()->send(run_.next(), type_); }

    void take(const std::string& message, WebSocketMessageType type) {
        if (type != type_) {
            throw std::runtime_error("the reply is of another kind");
        }
        if (run_.take(message)) {
            send();
        } else {
            end(nullptr);
        }
    }

    void end(std::exception_ptr failure) {
        failure_ = std::move(failure);
        loop_.quit();
    }

    trantor::EventLoop& loop_;
    bench::MessageRun run_;
    WebSocketMessageType type_;
    drogon::WebSocketClientPtr client_;
    std::exception_ptr failure_;
};

} // namespace

int main(int argc, char** argv) {
    return bench::run_messages(argc, argv, [](const bench::MessageOptions& options) {
        Client(*drogon::app().getLoop(), options).run();
    });
}
