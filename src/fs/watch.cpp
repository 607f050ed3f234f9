#include <penstock/fs/watch.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <system_error>
#include <utility>

#include <penstock/bridge/to_thread.hpp>
#include <penstock/bridge/wait_ready.hpp>
#include <penstock/task/timeout.hpp>

#include "watched_folders.hpp"

namespace penstock::fs {

namespace {

using Clock = std::chrono::steady_clock;

/// The time this long after now; the latest one for a duration that does not fit into it.
Clock::time_point time_after(std::chrono::milliseconds duration) {
    return Clock::time_point(std::chrono::nanoseconds(detail::deadline_after(duration)));
}

} // namespace

struct Watch::State {
    explicit State(WatchOptions wanted) noexcept : options(wanted), folders(wanted.recursive) {}

    WatchOptions options;
    WatchedFolders folders;
    std::vector<WatchEvent> events; ///< that were read and not taken yet
    CollectedChanges changes;
    std::error_code error; ///< with which the watch has ended
    bool ended = false;    ///< all that was watched is gone
    bool waiting = false;

    [[nodiscard]] Task<Result<>> read();
    [[nodiscard]] Task<Result<>> collect();
};

/// Reads what has happened. If the task is cancelled before a thread reads new folders, the events
/// wait for the next call.
Task<Result<>> Watch::State::read() {
    if (events.empty()) {
        Result<std::vector<WatchEvent>> found = folders.events();
        if (!found) {
            co_return failure(found.error());
        }
        events = std::move(*found);
    }
    const auto take = [this] { return folders.take(std::exchange(events, {}), changes); };
    const Result<> taken =
        WatchedFolders::needs_lookups(events) ? co_await to_thread(take) : take();
    ended = !folders.watches_any();
    co_return taken;
}

/// Waits for the first change, and collects until nothing has changed for a step.
Task<Result<>> Watch::State::collect() {
    std::optional<Clock::time_point> end;
    while (!ended) {
        if (!changes.empty() && !end) {
            end = time_after(options.debounce);
        }
        Result<std::uint32_t> ready;
        if (!events.empty()) {
            ready = io::readable;
        } else if (!end) {
            ready = co_await wait_ready(folders.descriptor(), io::readable);
        } else {
            const auto quiet = std::min(time_after(options.step), *end);
            if (quiet <= Clock::now()) {
                break;
            }
            ready = co_await timeout_at(quiet, wait_ready(folders.descriptor(), io::readable));
            if (!ready && ready.error() == std::errc::timed_out) {
                break;
            }
        }
        if (!ready) {
            co_return failure(ready.error());
        }
        if (const Result<> done = co_await read(); !done) {
            co_return done;
        }
    }
    co_return Result<>();
}

Task<Result<std::vector<Change>>> Watch::next() {
    State& state = *state_;
    if (state.waiting) {
        co_return failure(std::errc::device_or_resource_busy);
    }
    if (state.error) {
        co_return failure(std::errc::bad_file_descriptor);
    }
    state.waiting = true;
    Result<> collected;
    try {
        collected = co_await state.collect();
    } catch (...) { // std::bad_alloc
        state.waiting = false;
        throw;
    }
    state.waiting = false;
    if (!collected) {
        if (collected.error() != std::errc::operation_canceled) {
            state.error = collected.error();
            state.folders.close();
        }
        co_return failure(collected.error());
    }
    co_return state.changes.take();
}

Watch::Watch(std::unique_ptr<State> state) noexcept : state_("an fs::Watch", std::move(state)) {}
Watch::Watch(Watch&&) noexcept = default;
Watch& Watch::operator=(Watch&&) noexcept = default;
Watch::~Watch() = default;

Task<Result<Watch>> watch(std::vector<std::string> paths, WatchOptions options) {
    using namespace std::chrono_literals;
    if (paths.empty() || options.step < 0ms || options.debounce < 0ms) {
        co_return failure(std::errc::invalid_argument);
    }
    for (std::string& path : paths) {
        if (path.contains('\0')) {
            co_return failure(std::errc::invalid_argument);
        }
        while (path.size() > 1 && path.ends_with('/')) { // names would have two
            path.pop_back();
        }
    }
    auto state = std::make_unique<Watch::State>(options);
    const Result<> begun =
        co_await to_thread([&]() -> Result<> { return state->folders.begin(paths); });
    if (!begun) {
        co_return failure(begun.error());
    }
    co_return Watch(std::move(state));
}

Task<Result<Watch>> watch(std::string path, WatchOptions options) {
    return watch(std::vector<std::string>{std::move(path)}, options);
}

} // namespace penstock::fs
