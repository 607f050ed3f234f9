#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include <penstock/io/intrusive_list.hpp>
#include <penstock/io/timer_queue.hpp>
#include <penstock/result.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/sync/semaphore.hpp>
#include <penstock/task/canceller.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/task.hpp>
#include <penstock/task/yield.hpp>

namespace penstock::detail {

/// What servers have in common: they accept connections of any number of listeners, and serve each
/// in a task of its own, until they stop.
///
/// A connection takes its place when it is accepted, so a listener that waits holds none, and the
/// number of places taken is the number of connections. Beyond the limit each listener holds one
/// accepted connection that waits for a place, the others wait in the kernel's queue.
///
/// What one connection throws ends that one alone. While descriptors or memory are lacking, also
/// the memory to wait for a connection or for its place, accepting pauses. Any other error of a
/// listener ends its `serve`.
///
/// Thread safety: only on the thread of its loop. It must outlive each `serve`.
class AcceptLoop {
public:
    /// Held by a served connection until its end.
    using Place = sync::Semaphore::Permit;

    /// What the server does with failures.
    class Reporter : public ExceptionHandler {
    public:
        /// Descriptors or memory are lacking. At most once a second.
        virtual void cannot_accept(std::error_code error) noexcept = 0;
        // `handle` gets what a connection has thrown.

    protected:
        ~Reporter() = default;
    };

    /// A connection that can be told to end: all that are listed when the server stops, and the one
    /// that is listed for the longest time when a place is needed.
    class Endable : public io::ListHook<Endable> {
    public:
        Endable(const Endable&) = delete;
        Endable& operator=(const Endable&) = delete;

    protected:
        Endable() = default;
        ~Endable() = default;

    private:
        friend class AcceptLoop;

        /// Begins the end, and does not wait for it. Called once, after the connection was taken
        /// out of the list.
        virtual void end() noexcept = 0;

        io::MonotonicTime listed_at_ = not_listed;
    };

    /// Keeps a connection in the list.
    class Listed {
    public:
        Listed(AcceptLoop& loop, Endable& connection) noexcept
            : loop_(loop), connection_(connection) {
            loop_.list(connection_, io::monotonic_now());
        }
        ~Listed() { loop_.unlist(connection_); }
        Listed(const Listed&) = delete;
        Listed& operator=(const Listed&) = delete;

    private:
        AcceptLoop& loop_;
        Endable& connection_;
    };

    class Home;

    /// A connection that goes on without a task of its own while nothing happens. It owns itself.
    class Resident : public io::ListHook<Resident> {
    public:
        Resident(const Resident&) = delete;
        Resident& operator=(const Resident&) = delete;

    protected:
        Resident() = default;
        ~Resident() = default;

    private:
        friend class Home;

        /// The home ends: no task can be spawned any more. The connection frees itself, and leaves
        /// the home.
        virtual void leave() noexcept = 0;
    };

    /// Where the connections of one `serve` live.
    class Home {
    public:
        explicit Home(AcceptLoop& owner) noexcept : loop(owner) {}
        ~Home() {
            scope = nullptr;
            while (Resident* const first = residents.front()) {
                first->leave();
            }
        }
        Home(const Home&) = delete;
        Home& operator=(const Home&) = delete;

        AcceptLoop& loop;
        Scope* scope = nullptr; ///< of their tasks; null once these have ended
        io::IntrusiveList<Resident> residents;
    };

    /// For how long a listed connection is safe from giving its place to another one.
    static constexpr std::chrono::nanoseconds for_ever = std::chrono::nanoseconds::max();

    /// `places` is the greatest number of connections. Throws `std::invalid_argument` if it is 0.
    /// `reporter` must outlive this object.
    AcceptLoop(std::size_t places, std::chrono::nanoseconds safe, Reporter& reporter);
    AcceptLoop(const AcceptLoop&) = delete;
    AcceptLoop& operator=(const AcceptLoop&) = delete;

    /// Accepts until `stop`, then waits for the end of the connections, at most for its grace, and
    /// cancels the others. `listener` is closed before that. `serve(stream, place, home)` returns
    /// the task that serves a connection; other tasks of it may be spawned in the home's scope.
    /// Residents must have a task from their `end` on. Those that have none when all tasks have
    /// ended, by a cancellation, leave.
    ///
    /// Errors: those of the listener that waiting does not mend, and `operation_canceled`. They
    /// cancel all connections of this listener.
    template <typename Listener, typename Serve>
    [[nodiscard]] Task<Result<>> serve(Listener& listener, Serve& serve) {
        Home home(*this);
        const auto body = [&](Scope& connections) -> Task<Result<>> {
            home.scope = &connections;
            connections.isolate(reporter_);
            const Result<> ended =
                co_await cancellable(accepting_, accept_all(listener, serve, home));
            listener.close();
            if (!stopping()) {
                co_return ended;
            }
            (void)co_await connections.drain(grace_);
            co_return Result<>();
        };
        co_return co_await with_scope(body);
    }

    /// Ends each `serve` and the listed connections. Only the first call counts. A later `serve`
    /// ends at once.
    void stop(std::chrono::nanoseconds grace) noexcept;
    [[nodiscard]] bool stopping() const noexcept { return stopping_; }
    /// Set by `stop`.
    [[nodiscard]] sync::Event& stopped() noexcept { return stopped_; }

    /// From now on the connection may be told to end. `now` is the time.
    void list(Endable& connection, io::MonotonicTime now) noexcept {
        connection.listed_at_ = now;
        listed_.push_back(connection);
    }
    /// From now on the connection is told to end when the server stops, and never before.
    void keep(Endable& connection) noexcept {
        connection.listed_at_ = kept_back;
        kept_.push_back(connection);
    }
    /// Does nothing if it is not listed, as after `Endable::end`.
    void unlist(Endable& connection) noexcept {
        const io::MonotonicTime listed_at = std::exchange(connection.listed_at_, not_listed);
        if (listed_at != not_listed) {
            (listed_at == kept_back ? kept_ : listed_).remove(connection);
        }
    }

    /// The number of served connections.
    [[nodiscard]] std::size_t connections() const noexcept { return limit_ - places_.available(); }

private:
    static constexpr io::MonotonicTime not_listed = -1;
    static constexpr io::MonotonicTime kept_back = -2;
    /// When accepting is tried again that failed for want of a resource, or that waits for a place
    /// while no connection can give its own.
    static constexpr std::chrono::milliseconds retry_interval{100};

    template <typename Listener, typename Serve>
    Task<Result<>> accept_all(Listener& listener, Serve& serve, Home& home) {
        for (;;) {
            std::error_code error;
            try {
                auto stream = co_await listener.accept();
                if (stream) {
                    std::optional<Place> place = places_.try_acquire();
                    if (!place) {
                        Result<Place> waited = co_await wait_for_place();
                        if (!waited) {
                            co_return failure(waited.error());
                        }
                        place = std::move(*waited);
                    }
                    begin(home, serve, *stream, *place);
                    continue;
                }
                error = stream.error();
            } catch (const std::bad_alloc&) {
                error = std::make_error_code(std::errc::not_enough_memory);
            }
            if (!may_accept_after(error)) {
                co_return failure(error);
            }
            Result<> waited;
            bool has_timer = true;
            try {
                waited = co_await sleep_for(retry_interval);
            } catch (const std::bad_alloc&) {
                has_timer = false;
            }
            if (!has_timer) {
                waited = co_await yield();
            }
            if (!waited) {
                co_return waited;
            }
        }
    }

    template <typename Stream, typename Serve>
    void begin(Home& home, Serve& serve, Stream& stream, Place& place) noexcept {
        try {
            home.scope->spawn(serve(std::move(stream), std::move(place), home));
        } catch (...) { // no memory for the task
            reporter_.handle(std::current_exception());
        }
    }

    /// Whether accepting may succeed after this error of a listener, and a pause.
    [[nodiscard]] bool may_accept_after(std::error_code error) noexcept;
    [[nodiscard]] Task<Result<Place>> wait_for_place();
    /// Returns whether there was one that may be ended.
    bool end_first_listed() noexcept;

    std::size_t limit_;
    std::chrono::nanoseconds safe_;
    Reporter& reporter_;
    sync::Semaphore places_;
    io::IntrusiveList<Endable> listed_;
    io::IntrusiveList<Endable> kept_;
    io::MonotonicTime may_report_at_ = 0;
    Canceller accepting_;
    sync::Event stopped_;
    std::chrono::nanoseconds grace_{};
    bool stopping_ = false;
};

} // namespace penstock::detail
