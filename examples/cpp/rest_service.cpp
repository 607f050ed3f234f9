// A JSON REST service, and a WebSocket that tells of its changes. With a log, metrics, limits,
// CORS, compression, HTTP/2 and, given a certificate, TLS. SIGHUP opens log and certificate anew.
//
//     TOKEN=secret rest_service PORT ACCESS_LOG [CERTIFICATES KEY]
//     curl -H "Authorization: Bearer secret" --json '{"name": "ada"}' http://127.0.0.1:PORT/items

#include <penstock/http.hpp>
#include <penstock/http/nlohmann_json.hpp>
#include <penstock/penstock.hpp>
#include <penstock/tls/encryption.hpp>
#include <penstock/ws.hpp>

#include <cstdio>
#include <cstdlib>
#include <map>

using namespace penstock;
using namespace penstock::http;
using nlohmann::json;

namespace {

struct Items {
    std::map<std::string, json> all{};
    int last = 0;
    ws::Topics changes{};

    auto find(const Request& request) {
        const auto found = all.find(request.parameter("id"));
        return found != all.end() ? found : throw StatusError(Status::not_found);
    }
    void set(Response& response, Status status, const std::string& id, json value) {
        changes.publish("items", json{{"id", id}, {"value", value}}.dump());
        response.status(status);
        response.header("Location", "/items/" + id);
        write_json(response, all[id] = std::move(value));
    }
};

void add_routes(Server& server, Items& items) {
    const BearerAuthorization known("items", std::getenv("TOKEN"));
    const Compression compressed({.codings = codec::http::all_codings()});
    const Conditional unchanged([&items](const Request& request) {
        const std::size_t hash = std::hash<json>()(items.find(request)->second);
        return ResourceState{.entity_tag = '"' + std::to_string(hash) + '"'};
    });
    const auto list = as_json([&items](Request&) { return json(items.all); });
    const auto read = as_json([&](Request& request) { return items.find(request)->second; });
    const auto create = with_json<json>([&](Request&, Response& response, json value) {
        items.set(response, Status::created, std::to_string(++items.last), std::move(value));
    });
    const auto change = with_json<json>(
        [&items, check = unchanged](Request& request, Response& response, json value) mutable {
            if (check(request, response)) { // after the last wait, so that nobody is faster
                items.set(response, Status::ok, request.parameter("id"), std::move(value));
            }
        });
    const auto tell = [](ws::WebSocket& socket, ws::Subscriber& self) -> Task<Result<>> {
        self.subscribe("items");
        while (co_await socket.receive()) { // it has nothing to say
        }
        co_return Result<>();
    };
    server.get("/items", chain(compressed, EntityTags(), list));
    server.get("/items/{id}", chain(compressed, unchanged, read));
    server.post("/items", chain(known, TimeLimit(std::chrono::seconds(5)), create));
    server.put("/items/{id}", chain(known, TimeLimit(std::chrono::seconds(5)), change));
    server.delete_("/items/{id}", chain(known, unchanged, [&](Request& request, Response& answer) {
                       items.all.erase(items.find(request));
                       answer.status(Status::no_content);
                   }));
    server.get("/who", as_json([](Request& request) {
                   const auto encryption = request.encryption();
                   return json{{"address", request.peer_endpoint()->address()},
                               {"request", request.id()},
                               {"tls", encryption ? encryption->version : "none"}};
               }));
    server.upgrade("/changes", "websocket",
                   ws::upgrade_handler(ws::with_topics(items.changes, tell)));
}

Task<Result<>> serve(char** arguments) {
    Items items;
    const auto log = co_await unwrap(AccessLog::open(arguments[2]));
    const auto metrics = std::make_shared<Metrics>();
    const auto gate = gates(SecurityHeaders(), Cors({.origins = {"*"}}), RateLimit({.burst = 100}));
    Server server({.http2 = true, .metrics = metrics, .access_log = log, .gate = gate});
    add_routes(server, items);
    server.get("/metrics", metrics_page(metrics));
    tls::Context::ServerOptions options{.alpn = {"h2", "http/1.1"}};
    std::optional<tls::Context> context;
    if (arguments[3] != nullptr) {
        options.identity = {arguments[3], arguments[4]};
        context = co_await unwrap(tls::Context::server(options));
    }
    const auto port = static_cast<std::uint16_t>(std::atoi(arguments[1]));
    auto listener = co_await unwrap(net::TcpListener::listen(net::Endpoint::loopback(port)));
    std::printf("listening on %s\n", listener.local_endpoint()->to_string().c_str());
    const auto reload = [&] {
        const bool reloaded = !context || context->reload(options);
        std::puts(log->reopen() && reloaded ? "reloaded" : "not reloaded");
    };
    co_return co_await until_signal(
        context ? server.serve(std::move(listener), tls::server_encryption(*context))
                : server.serve(std::move(listener)),
        [&server] { server.stop(std::chrono::seconds(5)); }, reload);
}

} // namespace

int main(int count, char** arguments) {
    if (count != 3 && count != 5) {
        std::fputs("usage: TOKEN=... rest_service PORT ACCESS_LOG [CERTIFICATES KEY]\n", stderr);
        return 2;
    }
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    const Result<> served = run(serve(arguments));
    std::puts(served ? "stopped" : served.error().message().c_str());
    return served ? 0 : 1;
}
