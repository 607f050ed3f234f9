#pragma once

#include <chrono>
#include <coroutine>
#include <utility>

#include <penstock/detail/io/hang_up_hook.hpp>
#include <penstock/detail/task/children.hpp>
#include <penstock/http/request.hpp>
#include <penstock/http/server_options.hpp>
#include <penstock/io/timer_queue.hpp>
#include <penstock/io/work.hpp>
#include <penstock/net/stream_socket.hpp>
#include <penstock/result.hpp>
#include <penstock/task/task.hpp>

namespace penstock::http::detail {

/// Runs the task of a handler as a child of the connection's, which it can cancel alone: what the
/// connection still has to say is sent.
///
/// The client is watched only once the handler waits, so one that does not costs no system call.
///
/// A client that has ended its side may still read, or have closed: the kernel says the same of
/// both. So the end of the stream counts after `half_closed` only, and a reset at once.
class HandlerRun final : public penstock::detail::JoinBase,
                         private penstock::detail::HangUpHook,
                         private io::Timer {
public:
    /// `transport` may be null: then nothing is noticed. A `half_closed` of 0 means no limit.
    HandlerRun(Request& request, net::StreamSocket* transport, WhenClientGoes when_client_goes,
               std::chrono::milliseconds half_closed, Task<Result<>>&& task) noexcept
        : JoinBase(&ended), HangUpHook(&hung_up), Timer(&waited), request_(request),
          transport_(transport), half_closed_(half_closed), when_client_goes_(when_client_goes),
          child_(*this, std::move(task)) {}

    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) {
        const bool waits = join_children(task, [this] {
            add_child(child_);
            child_.start(context());
        });
        if (waits) {
            watch();
        }
        return waits;
    }

    [[nodiscard]] Result<> await_resume() { return child_.take(); }

    /// Looks for the end of the client, from now on or again.
    void watch() noexcept {
        if (transport_ != nullptr) {
            watches_ = true;
            transport_->watch_hang_up(*this, context().loop());
        }
    }

    /// The handler has received something. If the kernel has told of the end meanwhile, nobody was
    /// told who may stop reading now; and a client whose body is read has not gone.
    void has_read() noexcept;

private:
    static void ended(JoinBase& join, penstock::detail::ChildBase& child) noexcept;
    static void hung_up(HangUpHook& hook, bool reset) noexcept;
    static void waited(io::Work& work) noexcept;
    void gone() noexcept;

    Request& request_;
    net::StreamSocket* transport_;
    std::chrono::milliseconds half_closed_;
    WhenClientGoes when_client_goes_;
    bool watches_ = false;
    penstock::detail::Child<Result<>> child_;
};

} // namespace penstock::http::detail
