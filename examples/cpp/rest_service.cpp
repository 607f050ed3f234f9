// A JSON REST service: items that clients create, read, change under conditions, and delete. With
// an access log, Prometheus' metrics, limits, compression and, given a certificate, TLS, whose
// files SIGHUP reads again. SIGINT or SIGTERM ends it when the running requests are answered.
//
//     TOKEN=secret rest_service PORT ACCESS_LOG [CERTIFICATES KEY]
//
//     curl http://127.0.0.1:PORT/items
//     curl -H "Authorization: Bearer secret" --json '{"name": "ada"}' http://127.0.0.1:PORT/items

#include <penstock/http.hpp>
#include <penstock/penstock.hpp>
#include <penstock/tls/encryption.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

using namespace penstock;
using namespace std::chrono_literals;
using nlohmann::json;

template <> struct http::JsonCodec<json> {
    static std::string write(const json& value) { return value.dump(); }
    static std::optional<json> read(std::string_view text) {
        json value = json::parse(text, nullptr, false);
        return value.is_object() ? std::optional(std::move(value)) : std::nullopt;
    }
};

namespace {

struct Item {
    json value;
    int version = 1;
    [[nodiscard]] std::string tag() const { return '"' + std::to_string(version) + '"'; }
};

struct Items {
    std::map<std::string, Item, std::less<>> all{};
    int last = 0;

    Item* find(const http::Request& request) {
        const auto found = all.find(request.parameter("id"));
        return found == all.end() ? nullptr : &found->second;
    }
};

/// Sends an item that has been created or changed.
void tell(http::Response& response, http::Status status, const std::string& id, const Item& item) {
    response.status(status);
    response.header("Location", "/items/" + id);
    response.header("ETag", item.tag());
    http::write_json(response, item.value);
}

void add_routes(http::Server& server, Items& items, const std::string& token) {
    const http::Compression compressed({.codings = {codec::http::gzip()}});
    const http::RateLimit limited({.requests = 100, .burst = 200});
    const http::SecurityHeaders safe;
    const http::TimeLimit in_time(5s);
    const http::BearerAuthorization known("items", [token](std::string_view sent) {
        return !token.empty() && http::equal_secrets(sent, token);
    });
    const http::Conditional unchanged([&items](const http::Request& request) {
        const Item* item = items.find(request);
        return item != nullptr ? std::optional(http::ResourceState{.entity_tag = item->tag()})
                               : std::nullopt;
    });
    const auto list = [&items](http::Request&, http::Response& response) {
        json all = json::object();
        for (const auto& [id, item] : items.all) {
            all[id] = item.value;
        }
        http::write_json(response, all);
    };
    const auto read = [&items](http::Request& request, http::Response& response) {
        if (const Item* item = items.find(request)) {
            http::write_json(response, item->value);
        } else {
            response.status(http::Status::not_found);
        }
    };
    const auto create = [&items](http::Request& request,
                                 http::Response& response) -> Task<Result<>> {
        json value = co_await unwrap(http::read_json<json>(request));
        const std::string id = std::to_string(++items.last);
        const auto added = items.all.emplace(id, Item{.value = std::move(value)}).first;
        tell(response, http::Status::created, id, added->second);
        co_return Result<>();
    };
    const auto change = [&items,
                         check = unchanged](http::Request& request,
                                            http::Response& response) mutable -> Task<Result<>> {
        json value = co_await unwrap(http::read_json<json>(request));
        Item* item = items.find(request);
        if (item == nullptr) {
            response.status(http::Status::not_found);
        } else if (check(request, response)) { // after the last wait, so that nobody is faster
            item->value = std::move(value);
            ++item->version;
            tell(response, http::Status::ok, request.parameter("id"), *item);
        }
        co_return Result<>();
    };
    const auto remove = [&items](http::Request& request, http::Response& response) {
        const bool removed = items.all.erase(request.parameter("id")) > 0;
        response.status(removed ? http::Status::no_content : http::Status::not_found);
    };
    server.get("/items", chain(compressed, limited, safe, http::EntityTags(), list));
    server.get("/items/{id}", chain(compressed, limited, safe, unchanged, read));
    server.post("/items", chain(limited, safe, known, in_time, create));
    server.put("/items/{id}", chain(limited, safe, known, in_time, change));
    server.delete_("/items/{id}", chain(limited, safe, known, unchanged, remove));
}

/// SIGHUP: the files by their names, as logrotate and certbot have left them. Else: the end.
Task<Result<>> obey_signals(http::Server& server, http::AccessLog& log, const tls::Context* context,
                            const tls::Context::ServerOptions& encryption) {
    Signal signals = co_await unwrap(Signal::on({SIGHUP, SIGINT, SIGTERM}));
    while (co_await unwrap(signals.wait()) == SIGHUP) {
        const Result<> reloaded = context != nullptr ? context->reload(encryption) : Result<>();
        const Result<> reopened = log.reopen();
        std::puts(reloaded && reopened ? "reloaded" : "not reloaded");
        std::fflush(stdout);
    }
    std::puts("stopping");
    std::fflush(stdout);
    server.stop(5s);
    co_return Result<>();
}

Task<Result<>> serve(std::uint16_t port, std::string log_file, tls::Identity identity) {
    Items items;
    const auto log = co_await unwrap(http::AccessLog::open(std::move(log_file)));
    const auto metrics = std::make_shared<http::Metrics>();
    http::Server server({.metrics = metrics, .access_log = log});
    const char* const token = std::getenv("TOKEN");
    add_routes(server, items, token != nullptr ? token : "");
    server.get("/metrics", http::metrics_page(metrics));
    tls::Context::ServerOptions encryption{.identity = std::move(identity), .alpn = {"http/1.1"}};
    std::optional<tls::Context> context;
    if (!encryption.identity.certificate_chain_file.empty()) {
        context = co_await unwrap(tls::Context::server(encryption));
    }
    auto listener = co_await unwrap(net::TcpListener::listen(net::Endpoint::loopback(port)));
    std::printf("listening on %s\n", listener.local_endpoint()->to_string().c_str());
    std::fflush(stdout);
    const tls::Context* const encrypted = context ? &*context : nullptr;
    const auto ended =
        co_await all(context ? server.serve(std::move(listener), tls::server_encryption(*context))
                             : server.serve(std::move(listener)),
                     obey_signals(server, *log, encrypted, encryption));
    co_return ended ? Result<>() : failure(ended.error());
}

} // namespace

int main(int count, char** arguments) {
    if (count != 3 && count != 5) {
        std::fputs("usage: TOKEN=... rest_service PORT ACCESS_LOG [CERTIFICATES KEY]\n", stderr);
        return 2;
    }
    tls::Identity identity;
    if (count == 5) {
        identity = {.certificate_chain_file = arguments[3], .private_key_file = arguments[4]};
    }
    const auto port = static_cast<std::uint16_t>(std::atoi(arguments[1]));
    if (const Result<> served = run(serve(port, arguments[2], identity)); !served) {
        std::fprintf(stderr, "rest_service: %s\n", served.error().message().c_str());
        return 1;
    }
    std::puts("stopped");
}
