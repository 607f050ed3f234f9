#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/canceller.hpp>
#include <penstock/codec/http/limits.hpp>
#include <penstock/http/detail/router.hpp>
#include <penstock/http/server.hpp>
#include <penstock/io/intrusive_list.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/sync/semaphore.hpp>

namespace penstock::http::detail {

class Connection;

/// What the connections of a server share.
struct ServerState {
    explicit ServerState(ServerOptions settings);

    /// Passes a failure to the hook, or writes it to standard error.
    void report(const ServerFailure& failure) const noexcept;

    ServerOptions options;
    codec::http::Limits codec_limits;
    std::string server_line; ///< "Server: name\r\n", or empty
    Router router;
    sync::Semaphore places;
    io::IntrusiveList<Connection> connections;
    /// For the fields of a head while it is parsed. A connection copies those of a whole one.
    std::vector<Field> field_storage;
    bool stopping = false;
    std::chrono::nanoseconds grace{};
    sync::Event stop_event;
    Canceller accepting;
};

} // namespace penstock::http::detail
