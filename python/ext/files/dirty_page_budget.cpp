#include "files/dirty_page_budget.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

namespace penstock::python {

namespace {

constexpr std::int64_t millisecond = 1'000'000;

/// The largest budget: other programs write too.
constexpr std::int64_t largest_budget = std::int64_t{64} << 20;
constexpr io::MonotonicTime budget_lasts = 1000 * millisecond;
constexpr io::MonotonicTime between_refreshes = 50 * millisecond;

/// A write of 64 KiB takes some tens of microseconds, and the kernel's pauses for writers begin at
/// 10 ms. The times in between are those of a thread that shared its processor.
constexpr io::MonotonicTime slow_write = 8 * millisecond;
constexpr io::MonotonicTime empty_after_slow_write = 200 * millisecond;

/// The value of the line "name value"; -1 if there is none.
std::int64_t value_of(std::string_view text, std::string_view name) noexcept {
    std::size_t at = text.find(name);
    while (at != std::string_view::npos && at > 0 && text[at - 1] != '\n') {
        at = text.find(name, at + 1);
    }
    if (at == std::string_view::npos) {
        return -1;
    }
    std::int64_t value = -1;
    const char* end = text.data() + text.size();
    std::from_chars(text.data() + at + name.size(), end, value);
    return value;
}

std::int64_t free_dirty_bytes() noexcept {
    std::array<char, 16384> text;
    const int fd = ::open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    std::size_t length = 0;
    while (length < text.size()) {
        const ssize_t count = ::read(fd, text.data() + length, text.size() - length);
        if (count <= 0) {
            break;
        }
        length += static_cast<std::size_t>(count);
    }
    ::close(fd);
    const std::string_view all(text.data(), length);
    const std::int64_t dirty = value_of(all, "nr_dirty ");
    const std::int64_t writeback = value_of(all, "nr_writeback ");
    const std::int64_t limit = value_of(all, "nr_dirty_threshold ");
    const std::int64_t background = value_of(all, "nr_dirty_background_threshold ");
    if (dirty < 0 || writeback < 0 || limit < 0 || background < 0) {
        return 0;
    }
    return ((limit + background) / 2 - dirty - writeback) * ::sysconf(_SC_PAGESIZE);
}

} // namespace

bool DirtyPageBudget::take(std::int64_t bytes) noexcept {
    const io::MonotonicTime now = io::monotonic_now();
    if ((bytes_left_ < bytes || now >= expires_) && now >= next_refresh_) {
        refresh(now);
    }
    if (bytes_left_ < bytes || now >= expires_) {
        return false;
    }
    bytes_left_ -= bytes;
    return true;
}

void DirtyPageBudget::note_write(io::MonotonicTime began, io::MonotonicTime ended) noexcept {
    if (ended - began >= slow_write) {
        bytes_left_ = 0;
        next_refresh_ = ended + empty_after_slow_write;
    }
}

void DirtyPageBudget::refresh(io::MonotonicTime now) noexcept {
    bytes_left_ = std::clamp(free_dirty_bytes() / 4, std::int64_t{0}, largest_budget);
    expires_ = now + budget_lasts;
    next_refresh_ = now + between_refreshes;
}

} // namespace penstock::python
