#include <cstdio>

#include <penstock/http/client.hpp>
#include <penstock/task/run.hpp>

static penstock::Task<bool> is_refused() {
    penstock::http::Client client;
    const auto response = co_await client.get("http://127.0.0.1:1/");
    std::puts(response ? "answered" : response.error().message().c_str());
    co_return !response && response.error() == penstock::http::ClientError::connection_refused;
}

int main() {
    return penstock::run(is_refused()) ? 0 : 1;
}
