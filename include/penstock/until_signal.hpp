#pragma once

#include <functional>

#include <penstock/result.hpp>
#include <penstock/task/task.hpp>

namespace penstock {

/// Runs a server until SIGINT or SIGTERM arrives. Then calls `stop`, and returns the server's
/// result when that has ended:
///
///     co_return co_await until_signal(server.serve(std::move(listener)),
///                                     [&] { server.stop(std::chrono::seconds(5)); });
///
/// A further SIGINT or SIGTERM cancels the server. With a third argument, each SIGHUP calls it: for
/// `tls::Context::reload` and `http::AccessLog::reopen`. Without one, SIGHUP is left as it is.
///
/// `served` begins once the signals are subscribed to. The functions run between its steps, on the
/// loop's thread, and must not block for long.
///
/// Errors: those of `served`, `operation_canceled` after a further signal, and those of
/// `Signal::on`: `device_or_resource_busy` if another object has one of the signals. An exception
/// of a function cancels the server, and is rethrown when that has ended.
///
/// Cancellation: cancels the server, whose result is returned.
[[nodiscard]] Task<Result<>> until_signal(Task<Result<>> served, std::function<void()> stop,
                                          std::function<void()> reload = {});

} // namespace penstock
