#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include <penstock/stream/bytes.hpp>

namespace penstock::ws {

namespace detail {
class Connection;
} // namespace detail

class CallbackSocket;

/// A message that a server sends to many connections: encoded once, in memory that they share, and
/// compressed at most once for each window size that they have negotiated (RFC 7692).
///
///     const ws::SharedMessage news = ws::SharedMessage::text("hello");
///     co_await unwrap(one.send(news));
///     co_await unwrap(other.send(news));
///
/// A copy shares the memory, which lives as long as the last copy. `text` and `binary` throw
/// `std::bad_alloc`.
///
/// Thread safety: all copies belong to one loop.
class SharedMessage {
public:
    /// The text must be UTF-8, which is not checked.
    [[nodiscard]] static SharedMessage text(std::string_view text);
    [[nodiscard]] static SharedMessage binary(Bytes payload);

    [[nodiscard]] bool is_text() const noexcept;
    [[nodiscard]] Bytes payload() const noexcept;

private:
    friend class detail::Connection;
    friend class CallbackSocket;
    struct State;
    explicit SharedMessage(std::shared_ptr<State> state) noexcept;
    /// Without compression.
    [[nodiscard]] Bytes frame() const noexcept;

    std::shared_ptr<State> state_;
};

} // namespace penstock::ws
