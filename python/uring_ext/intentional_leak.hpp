#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define PENSTOCK_LEAKS_ARE_CHECKED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PENSTOCK_LEAKS_ARE_CHECKED 1
#endif
#endif

#ifdef PENSTOCK_LEAKS_ARE_CHECKED
#include <sanitizer/lsan_interface.h>
#endif

namespace penstock::python::uring {

/// Excludes this memory, and everything that it refers to, from the leak check of a sanitized
/// build. It is never freed on purpose: the kernel may still write there. `memory` may be null.
inline void mark_intentional_leak([[maybe_unused]] const void* memory) noexcept {
#ifdef PENSTOCK_LEAKS_ARE_CHECKED
    if (memory != nullptr) {
        __lsan_ignore_object(memory);
    }
#endif
}

} // namespace penstock::python::uring
