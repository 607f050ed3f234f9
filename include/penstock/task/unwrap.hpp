#pragma once

#include <utility>

#include <penstock/detail/task/children.hpp>
#include <penstock/detail/task/unwrap_awaiter.hpp>
#include <penstock/result.hpp>

namespace penstock {

/// Returns the value of a result, or ends the awaiting task with its error.
///
///     Task<Result<std::string>> greet(net::TcpStream& stream) {
///         std::array<char, 5> name;
///         co_await unwrap(stream.read_exactly(name));
///         const fs::File file = co_await unwrap(fs::File::open("greeting"));
///         ...
///     }
///
/// The argument is a `Result`, or a task or operation that returns one. The awaiting task must
/// return a `Result`. Its local variables are destroyed as after `co_return`. An `AsyncGenerator`
/// of results yields the error as its last item.
///
/// Success costs nothing. An error is thrown as a private exception inside the task, so a `catch
/// (...)` around the `co_await` must rethrow it. The throw takes some microseconds (3 to 10 on the
/// machine where it was measured) in each task that unwraps the error, and longer if other threads
/// throw at the same time. Testing the `Result` takes less than a tenth of a microsecond. So test
/// the `Result` where errors are usual: in a loop, and at the end of a connection on a busy server.
template <typename T> [[nodiscard]] detail::Unwrap<Result<T>> unwrap(Result<T> result) noexcept {
    return {std::move(result)};
}

template <Awaitable T> [[nodiscard]] detail::Unwrap<T> unwrap(T awaitable) noexcept {
    return {std::move(awaitable)};
}

} // namespace penstock
