#include <penstock/bridge/cpu_pool.hpp>

#include <algorithm>
#include <stdexcept>

#include <sched.h>

namespace penstock {

namespace {

std::size_t usable_processors() noexcept {
    cpu_set_t usable;
    if (::sched_getaffinity(0, sizeof usable, &usable) != 0) {
        return 1; // a machine with more processors than the set has room for
    }
    return std::max<std::size_t>(static_cast<std::size_t>(CPU_COUNT(&usable)), 1);
}

} // namespace

CpuPool::CpuPool(std::string name, std::size_t threads)
    : workers_(new detail::WorkerPool(
          threads != 0 ? threads
                       : throw std::invalid_argument("a CPU pool has at least one thread"),
          std::move(name))) {}

CpuPool::CpuPool(std::string name) : CpuPool(std::move(name), usable_processors()) {}

} // namespace penstock
