#include <penstock/until_signal.hpp>

#include <array>
#include <csignal>
#include <span>
#include <utility>
#include <variant>

#include <penstock/signal.hpp>
#include <penstock/task/race.hpp>
#include <penstock/task/unwrap.hpp>

namespace penstock {

namespace {

/// Ends with a success at the second signal that is to end the server.
Task<Result<>> obey(Signal& signals, const std::function<void()>& stop,
                    const std::function<void()>& reload) {
    bool stopping = false;
    for (;;) {
        if (co_await unwrap(signals.wait()) == SIGHUP) {
            reload();
        } else if (std::exchange(stopping, true)) {
            co_return Result<>();
        } else {
            stop();
        }
    }
}

} // namespace

Task<Result<>> until_signal(Task<Result<>> served, std::function<void()> stop,
                            std::function<void()> reload) {
    constexpr std::array numbers{SIGINT, SIGTERM, SIGHUP};
    Signal signals = co_await unwrap(
        Signal::on(std::span(numbers).first(reload ? numbers.size() : numbers.size() - 1)));
    const auto first = co_await race(std::move(served), obey(signals, stop, reload));
    if (const Result<>* const ended = std::get_if<0>(&first)) {
        co_return *ended;
    }
    const Result<>& obeyed = std::get<1>(first);
    co_return obeyed ? failure(std::errc::operation_canceled) : obeyed;
}

} // namespace penstock
