#pragma once

#include <utility>

namespace penstock::io {

/// A static object whose destructor never runs. Destructors of other static objects, and threads
/// that still run while the program ends, may therefore use it. Memory that it owns stays
/// reachable.
template <typename T> class NeverDestroyed {
public:
    template <typename... Arguments>
    constexpr explicit NeverDestroyed(Arguments&&... arguments)
        : object_(std::forward<Arguments>(arguments)...) {}
    NeverDestroyed(const NeverDestroyed&) = delete;
    NeverDestroyed& operator=(const NeverDestroyed&) = delete;
    // NOLINTNEXTLINE(modernize-use-equals-default): that would be deleted, because of the union
    constexpr ~NeverDestroyed() {}

    [[nodiscard]] constexpr T& operator*() noexcept { return object_; }
    [[nodiscard]] constexpr const T& operator*() const noexcept { return object_; }

private:
    union {
        T object_;
    };
};

} // namespace penstock::io
