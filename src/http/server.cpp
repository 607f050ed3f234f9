#include <penstock/http/server.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include <penstock/codec/http2/server_session.hpp>
#include <penstock/detail/task/deadline.hpp>

#include "http/connection.hpp"
#include "http/server_state.hpp"
#include "http/upgraded_connection.hpp"

namespace penstock::http {

namespace detail {

namespace {

std::string line_of(const std::string& name) {
    if (name.empty()) {
        return {};
    }
    return std::string(Headers{{"Server", name}}.text());
}

} // namespace

ServerState::ServerState(ServerOptions settings)
    : options(std::move(settings)),
      codec_limits{.line = options.limits.request_line, .head = options.limits.head},
      server_line(line_of(options.server_name)), field_storage(options.limits.fields),
      accept_loop(
          options.limits.connections,
          std::chrono::nanoseconds(penstock::detail::nanoseconds_of(options.timeouts.safe_idle)),
          *this) {
    if (options.metrics) {
        unrouted = &options.metrics->route({}, {});
    }
    if (options.http2 && !codec::http2::is_available()) {
        throw std::runtime_error(
            "http::Server: ServerOptions::http2 needs libnghttp2, which cannot "
            "be loaded; install it (Debian: libnghttp2-14)");
    }
}

void ServerState::report(const ServerFailure& failure) const noexcept {
    if (options.on_failure) {
        options.on_failure(failure);
    } else if (failure.level == ServerFailure::Level::failure) {
        std::fprintf(stderr, "http::Server: %s\n", failure.to_string().c_str());
    }
}

} // namespace detail

std::string ServerFailure::to_string() const {
    std::string text;
    if (!method.empty()) {
        text.append(method).append(" ").append(target).append(": ");
    }
    if (!exception) {
        return text + error.message();
    }
    try {
        std::rethrow_exception(exception);
    } catch (const std::exception& thrown) {
        return text + thrown.what();
    } catch (...) {
        return text + "an exception that is not a std::exception";
    }
}

Server::Server(ServerOptions options)
    : state_(std::make_unique<detail::ServerState>(std::move(options))) {}

Server::~Server() = default;

void Server::add(std::string_view method, std::string_view pattern, std::string protocol,
                 detail::Handler handler, const RouteOptions& options) {
    state_->upgrades = state_->upgrades || !protocol.empty();
    detail::Route& route =
        state_->router.add(method, pattern, std::move(protocol), std::move(handler), options);
    if (state_->options.metrics) {
        route.metrics = &state_->options.metrics->route(method, pattern);
    }
}

Result<> Server::files(std::string_view prefix, std::string_view folder,
                       const StaticFileOptions& options) {
    Result<StaticFiles> files = StaticFiles::open(folder, options);
    if (!files) {
        return failure(files.error());
    }
    while (prefix.ends_with('/')) {
        prefix.remove_suffix(1);
    }
    const auto shared = std::make_shared<StaticFiles>(std::move(*files));
    get(std::string(prefix) + "/{path...}",
        [shared](Request& request, Response& response) {
            return shared->serve(request, response, request.parameter("path"));
        },
        {.when_client_goes = WhenClientGoes::finish});
    return {};
}

Task<void> Server::serve_stream(AnyStream stream, AcceptLoop::Home* home,
                                AcceptLoop::Place* place) {
    detail::Connection connection(*state_, std::move(stream), {.home = home, .place = place});
    co_await connection.serve();
}

penstock::detail::AcceptLoop& Server::accept_loop() noexcept {
    return state_->accept_loop;
}

std::chrono::milliseconds Server::handshake_time() const noexcept {
    return penstock::detail::time_limit(state_->options.timeouts.head);
}

std::size_t Server::connections() const noexcept {
    return state_->accept_loop.connections();
}

std::vector<OpenConnection> Server::open_connections() const {
    std::vector<std::pair<std::uint64_t, OpenConnection>> found;
    for (detail::Connection* each = state_->open.front(); each != nullptr;
         each = state_->open.after(*each)) {
        found.emplace_back(each->number(), each->describe());
    }
    for (const detail::UpgradedConnection* each = state_->upgraded.front(); each != nullptr;
         each = state_->upgraded.after(*each)) {
        found.emplace_back(each->number(), each->describe());
    }
    std::ranges::sort(found, {}, [](const auto& each) { return each.first; });
    std::vector<OpenConnection> all;
    all.reserve(found.size());
    for (auto& [number, connection] : found) {
        all.push_back(std::move(connection));
    }
    return all;
}

void Server::begin_stop(std::chrono::nanoseconds grace) noexcept {
    state_->accept_loop.stop(grace);
}

void Server::report_handshake(std::error_code error) const noexcept {
    if (error != std::errc::operation_canceled) { // by the end of the server, which is not news
        state_->report({.error = error, .level = ServerFailure::Level::notice});
    }
}

} // namespace penstock::http
