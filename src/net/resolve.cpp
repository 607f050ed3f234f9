#include <penstock/net/resolve.hpp>

#include <memory>
#include <utility>

#include <netdb.h>

#include <penstock/bridge/to_thread.hpp>

#include "detail/error_category.hpp"

namespace penstock::net {

namespace {

struct ResolverErrors {
    static constexpr const char* name = "getaddrinfo";

    static std::string message(int value) { return ::gai_strerror(value); }

    static std::errc condition(int value) noexcept {
        switch (value) {
        case EAI_AGAIN:
            return std::errc::resource_unavailable_try_again;
        case EAI_MEMORY:
            return std::errc::not_enough_memory;
        default:
            return {};
        }
    }
};

struct FreeAddresses {
    void operator()(addrinfo* addresses) const noexcept { ::freeaddrinfo(addresses); }
};

Result<std::vector<Endpoint>> look_up(const std::string& host, std::uint16_t port) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM; // otherwise each address is listed once for each socket type
    addrinfo* found = nullptr;
    const int reason = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (reason == EAI_SYSTEM) {
        return last_failure();
    }
    if (reason != 0) {
        return failure(std::error_code(reason, resolve_category()));
    }
    const std::unique_ptr<addrinfo, FreeAddresses> addresses(found);
    std::vector<Endpoint> endpoints;
    for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
        if (const auto endpoint = Endpoint::from_native(entry->ai_addr, entry->ai_addrlen)) {
            endpoints.push_back(*endpoint);
        }
    }
    return endpoints;
}

} // namespace

const std::error_category& resolve_category() noexcept {
    return penstock::detail::category_of<ResolverErrors>();
}

Task<Result<std::vector<Endpoint>>> resolve(std::string host, std::uint16_t port) {
    if (host.find('\0') != std::string::npos) {
        co_return failure(std::errc::invalid_argument);
    }
    if (const Result<Endpoint> endpoint = Endpoint::parse(host, port)) {
        co_return std::vector{*endpoint};
    }
    co_return co_await to_thread([&] { return look_up(host, port); });
}

} // namespace penstock::net
