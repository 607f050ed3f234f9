#pragma once

#include <coroutine>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <system_error>

#include <penstock/detail/server/accept_loop.hpp>
#include <penstock/detail/server/seat.hpp>
#include <penstock/detail/task/embedded_task.hpp>
#include <penstock/detail/task/frame_allocator.hpp>
#include <penstock/result.hpp>
#include <penstock/task/task.hpp>
#include <penstock/ws/handler.hpp>
#include <penstock/ws/web_socket.hpp>

namespace penstock::ws::detail {

/// The reason of a close frame at a graceful shutdown.
inline constexpr const char* stop_reason = "the server stops";

/// A connection of a server whose handler is a coroutine. While that runs, this object and the
/// handler's frame are all that the server holds for it: no coroutine of its own waits for the
/// handler. When it has ended, the same task goes on with the close handshake.
///
/// It owns itself, and goes when the close handshake has ended, or when the task has that closes it
/// because the server stops, if that takes longer.
class Conversation final : public penstock::detail::EmbeddedTask,
                           public penstock::detail::AcceptLoop::Endable,
                           public penstock::detail::FrameAllocated {
public:
    /// Calls `handler` in the loop's next iteration. It must outlive the conversation, whose
    /// coroutine may be a closure of it. Throws `std::bad_alloc`, and the connection is closed
    /// then.
    static void begin(std::unique_ptr<penstock::detail::Seat> seat, WebSocket&& accepted,
                      const Handler& handler);

    Conversation(const Conversation&) = delete;
    Conversation& operator=(const Conversation&) = delete;

private:
    class Keeper;

    Conversation(std::unique_ptr<penstock::detail::Seat> seat, WebSocket&& accepted,
                 const Handler& handler) noexcept;
    ~Conversation() = default;

    void end() noexcept override;

    static void start(io::Work& work);
    static std::coroutine_handle<> coroutine_ended(Completion& completion) noexcept;
    [[nodiscard]] std::coroutine_handle<> say_goodbye(Result<> served) noexcept;
    [[nodiscard]] std::coroutine_handle<> finish(Result<> served) noexcept;
    [[nodiscard]] static Task<void> close_one(Keeper keeper);

    std::unique_ptr<penstock::detail::Seat> seat_; ///< null: it has ended, but a Keeper has it
    const Handler* handler_;                       ///< until it was called
    WebSocket socket_;                             ///< closed before the seat is free
    std::optional<Task<Result<>>> task_;           ///< the handler's, and then the goodbye
    std::exception_ptr thrown_;
    std::uint32_t keepers_ = 0;
    bool says_goodbye_ = false;
};

/// Whether an error says that the peer has gone, or that the task was cancelled.
[[nodiscard]] bool is_end_of_connection(std::error_code error) noexcept;

} // namespace penstock::ws::detail
