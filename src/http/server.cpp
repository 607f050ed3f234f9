#include <penstock/http/server.hpp>

#include <array>
#include <cstdio>
#include <utility>

#include <penstock/canceller.hpp>
#include <penstock/sleep.hpp>

#include "http/connection.hpp"
#include "http/server_state.hpp"

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
      server_line(line_of(options.server_name)), places(options.limits.connections),
      field_storage(options.limits.fields) {}

void ServerState::report(const ServerFailure& failure) const noexcept {
    if (options.on_failure) {
        options.on_failure(failure);
    } else {
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
        return text + "an exception that is no std::exception";
    }
}

Server::Server(ServerOptions options)
    : state_(std::make_unique<detail::ServerState>(std::move(options))) {}

Server::~Server() = default;

void Server::add(std::string_view method, std::string_view pattern, std::string protocol,
                 detail::Handler handler, const RouteOptions& options) {
    state_->router.add(method, pattern, std::move(protocol), std::move(handler), options);
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
    get(std::string(prefix) + "/{path...}", [shared](Request& request, Response& response) {
        return shared->serve(request, response, request.parameter("path"));
    });
    return {};
}

Task<void> Server::serve_stream(AnyStream stream) {
    detail::Connection connection(*state_, std::move(stream));
    co_await connection.serve();
}

Task<Result<>> Server::while_accepting(Task<Result<>> accepting) {
    return cancellable(state_->accepting, std::move(accepting));
}

Task<Result<>> Server::wait_after(std::error_code error) {
    constexpr std::array temporary{std::errc::too_many_files_open,
                                   std::errc::too_many_files_open_in_system,
                                   std::errc::no_buffer_space, std::errc::not_enough_memory};
    for (const std::errc reason : temporary) {
        if (error == reason) {
            report(error);
            co_return co_await sleep_for(std::chrono::milliseconds(100));
        }
    }
    co_return failure(error);
}

sync::Semaphore& Server::places() noexcept {
    return state_->places;
}

bool Server::is_stopping() const noexcept {
    return state_->stopping;
}

std::chrono::nanoseconds Server::grace() const noexcept {
    return state_->grace;
}

std::chrono::milliseconds Server::handshake_time() const noexcept {
    return state_->options.timeouts.head;
}

std::size_t Server::connections() const noexcept {
    return state_->options.limits.connections - state_->places.available();
}

void Server::close_idle() noexcept {
    for (detail::Connection* connection = state_->connections.front(); connection != nullptr;
         connection = io::IntrusiveList<detail::Connection>::after(*connection)) {
        connection->close_if_idle();
    }
}

void Server::begin_stop(std::chrono::nanoseconds grace) noexcept {
    if (state_->stopping) {
        return;
    }
    state_->stopping = true;
    state_->grace = grace;
    state_->stop_event.set();
    state_->accepting.cancel();
    close_idle();
}

void Server::report(std::error_code error) const noexcept {
    state_->report({.error = error});
}

} // namespace penstock::http
