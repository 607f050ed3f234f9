#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include <penstock/result.hpp>
#include <penstock/stream/any_stream.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/task/task.hpp>
#include <penstock/ws/detail/url.hpp>
#include <penstock/ws/options.hpp>

namespace penstock::ws::detail {

/// Makes the stream to the server of a URL: through the proxy, encrypted for wss. `options` must
/// outlive the task.
///
/// Errors: those of `WebSocket::connect` by URL.
[[nodiscard]] Task<Result<AnyStream>> dial(const Url& url, const ConnectOptions& options);

} // namespace penstock::ws::detail
