// Counts the program's allocations. It replaces operator new, so only one file of a program
// includes it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// the sanitizer's runtime defines it, and the linker allows no second definition
#define PENSTOCK_OPERATOR_NEW_IS_TAKEN
#endif
#endif

namespace penstock::testing {

inline std::atomic<std::size_t> allocations{0};

/// The number of allocations of `body`'s later calls, after one warm-up call.
template <typename Body> std::size_t allocations_after_warm_up(Body body) {
    body();
    const std::size_t before = allocations.load();
    for (int round = 0; round < 100; ++round) {
        body();
    }
    return allocations.load() - before;
}

} // namespace penstock::testing

#ifndef PENSTOCK_OPERATOR_NEW_IS_TAKEN
void* operator new(std::size_t size) {
    penstock::testing::allocations.fetch_add(1, std::memory_order_relaxed);
    if (void* memory = std::malloc(size)) {
        return memory;
    }
    throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
    std::free(memory);
}

void operator delete(void* memory, std::size_t /*size*/) noexcept {
    std::free(memory);
}
#endif
