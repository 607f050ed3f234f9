#include "files/mapped_ranges.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <mutex>

#include <sys/mman.h>
#include <unistd.h>

namespace penstock::python {

namespace {

constexpr std::size_t most_ranges = 4096;

std::array<MappedRange, most_ranges> ranges;
std::mutex installing;
struct sigaction previous = {};
std::atomic<bool> gave_back;

MappedRange* range_of(std::uintptr_t address) noexcept {
    for (MappedRange& range : ranges) {
        if (range.begin.load(std::memory_order_acquire) <= address &&
            address < range.end.load(std::memory_order_acquire)) {
            return &range;
        }
    }
    return nullptr;
}

/// Gives a signal that concerns no range back. A fault happens again when the handler returns.
void give_back(const siginfo_t* info) noexcept {
    struct sigaction next = previous;
    if (gave_back.exchange(true)) {
        next = {};
        next.sa_handler = SIG_DFL; // that handler has given it back to this one
    }
    ::sigaction(SIGBUS, &next, nullptr);
    if (info->si_code <= 0) {
        ::raise(SIGBUS); // sent by a program: it would not come again by itself
    }
}

void on_fault(int /*signal*/, siginfo_t* info, void* /*context*/) noexcept {
    const int saved = errno;
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    MappedRange* range = info->si_code > 0 ? range_of(address) : nullptr;
    if (range != nullptr) {
        const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
        const std::uintptr_t begin = address & ~(page - 1);
        // All that follows at once: page by page, a long range would become too many mappings.
        const std::size_t size = range->end.load(std::memory_order_acquire) - begin;
        range->lost.store(true, std::memory_order_release);
        // The address is a number that the kernel has reported.
        void* zeros =
            ::mmap(reinterpret_cast<void*>(begin), size, // NOLINT(performance-no-int-to-ptr)
                   PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (zeros == MAP_FAILED) {
            range = nullptr;
        }
    }
    if (range == nullptr) {
        give_back(info);
    }
    errno = saved;
}

/// Also where another handler has been installed since.
bool install() noexcept {
    const std::scoped_lock lock(installing);
    struct sigaction now = {};
    if (::sigaction(SIGBUS, nullptr, &now) != 0) {
        return false;
    }
    if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &on_fault) {
        return true;
    }
    previous = now;
    gave_back.store(false);
    struct sigaction ours = {};
    ours.sa_sigaction = &on_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigemptyset(&ours.sa_mask);
    return ::sigaction(SIGBUS, &ours, nullptr) == 0;
}

} // namespace

MappedRange* guard_range(void* begin, std::size_t size) noexcept {
    if (!install()) {
        return nullptr;
    }
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto from = reinterpret_cast<std::uintptr_t>(begin);
    for (MappedRange& range : ranges) {
        if (!range.used.exchange(true)) {
            range.lost.store(false);
            range.end.store((from + size + page - 1) & ~(page - 1), std::memory_order_release);
            range.begin.store(from, std::memory_order_release);
            return &range;
        }
    }
    errno = ENOMEM;
    return nullptr;
}

void release_range(MappedRange* range) noexcept {
    range->end.store(0, std::memory_order_release); // an unused range holds no address
    range->begin.store(0, std::memory_order_release);
    range->used.store(false);
}

} // namespace penstock::python
