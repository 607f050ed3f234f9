#include <penstock/detail/io/write_watch.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <new>

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <penstock/detail/io/pollable.hpp>
#include <penstock/event_loop.hpp>
#include <penstock/io/owner_of.hpp>

namespace penstock::detail {

namespace {

/// What one look credits at most. A receiver opens its window in steps of up to this, and a peer
/// that was fast has no more than this in hand when it stops.
constexpr std::uint64_t most_credited = std::uint64_t{128} * 1024;
constexpr std::int64_t second = 1'000'000'000;

} // namespace

std::optional<std::uint64_t> acknowledged_bytes(int socket) noexcept {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
        size >= offsetof(tcp_info, tcpi_bytes_acked) + sizeof info.tcpi_bytes_acked) {
        return info.tcpi_bytes_acked;
    }
    return std::nullopt;
}

WriteWatch::WriteWatch(Pollable& pollable, const net::WriteLimit& limit) noexcept
    : Timer(&expire), pollable_(pollable),
      measure_(acknowledged_bytes(pollable.descriptor()) ? Measure::acknowledged
                                                         : Measure::queued) {
    set(limit);
}

void WriteWatch::set(const net::WriteLimit& limit) noexcept {
    constexpr std::chrono::milliseconds most{std::numeric_limits<std::int32_t>::max()};
    const bool limited = limit.time > limit.time.zero() && limit.time <= most;
    const std::int64_t before = time_;
    time_ = limited ? std::chrono::nanoseconds(limit.time).count() : 0;
    left_ += time_ - before;
    rate_ = limit.rate;
    backlog_ = limit.maximum_backlog;
}

void WriteWatch::begin() {
    if (time_ == 0) {
        return;
    }
    since_ = begun_ = io::coarse_monotonic_now();
    on_attempt();
    arm();
}

/// For the rest of the allowance, and before that for the time after which a peer is slow.
void WriteWatch::arm() {
    io::MonotonicTime due = since_ + std::max<std::int64_t>(left_, 0);
    if (!restrained_) {
        due = std::min(due, begun_ + time_ / 8);
    }
    if (scheduled()) {
        if (deadline <= due) {
            return;
        }
        pollable_.loop_->timers().cancel(*this);
    }
    pollable_.loop_->timers().add(*this, due);
}

// The kernel calls a socket writable when a third of its buffer is free and, with
// TCP_NOTSENT_LOWAT, half of that amount: the peer has taken a large part.
void WriteWatch::on_room() noexcept {
    if (time_ != 0) {
        charge();
        begun_ = since_;
        left_ = std::max(left_, time_);
    }
}

void WriteWatch::on_attempt() noexcept {
    if (measure_ == Measure::queued && time_ != 0) {
        seen_ = queued();
    }
}

void WriteWatch::end() noexcept {
    if (time_ != 0) {
        charge();
    }
}

void WriteWatch::stop(EventLoop& loop) noexcept {
    if (scheduled()) {
        loop.timers().cancel(*this);
    }
}

/// Takes the time since the last one off the allowance.
void WriteWatch::charge() noexcept {
    const io::MonotonicTime now = io::coarse_monotonic_now();
    left_ -= std::max<std::int64_t>(now - since_, 0);
    since_ = now;
}

void WriteWatch::credit() noexcept {
    const std::uint64_t bytes = std::min(gained(), most_credited);
    if (bytes == 0) {
        return;
    }
    if (rate_ == 0) {
        left_ = std::max(left_, time_);
        return;
    }
    const auto worth = [this](std::uint64_t count) {
        return static_cast<std::int64_t>(count * second / rate_);
    };
    const std::int64_t most = time_ + std::min(worth(most_credited), 3 * time_);
    left_ = std::min(left_ + worth(bytes), most);
}

std::uint64_t WriteWatch::queued() const noexcept {
    int bytes = 0;
    return ::ioctl(pollable_.descriptor(), SIOCOUTQ, &bytes) == 0 && bytes > 0
               ? static_cast<std::uint64_t>(bytes)
               : 0;
}

/// What the peer has taken since the last look.
std::uint64_t WriteWatch::gained() noexcept {
    if (measure_ == Measure::acknowledged) {
        const std::uint64_t before = seen_;
        seen_ = acknowledged_bytes(pollable_.descriptor()).value_or(before);
        return seen_ - before;
    }
    const std::uint64_t now = queued();
    return seen_ > now ? seen_ - now : 0;
}

/// Once, when the peer has turned out to be slow.
void WriteWatch::restrain() noexcept {
    restrained_ = true;
    if (backlog_ != 0 && measure_ == Measure::acknowledged) {
        const auto most = static_cast<int>(
            std::min<std::uint32_t>(backlog_, std::numeric_limits<std::int32_t>::max()));
        (void)::setsockopt(pollable_.descriptor(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most,
                           sizeof most);
    }
}

void WriteWatch::expire(io::Work& work) {
    auto& self = static_cast<WriteWatch&>(io::owner_of<&io::Timer::work>(work));
    if (self.time_ != 0 && self.pollable_.is_awaited(Direction::writing)) {
        self.look();
    }
}

void WriteWatch::look() {
    charge();
    if (!restrained_ && since_ - begun_ >= time_ / 8) {
        restrain();
    }
    if (left_ <= 0) {
        credit();
        if (pollable_.retry_write()) {
            return; // this may be gone
        }
        on_attempt();
    }
    if (left_ > 0) {
        try {
            arm();
            return;
            // NOLINTNEXTLINE(bugprone-empty-catch): a wait without limit is worse than an early end
        } catch (const std::bad_alloc&) {
        }
    }
    pollable_.interrupt_write();
}

} // namespace penstock::detail
