#pragma once

#include <memory>
#include <utility>

namespace penstock::detail {

// The rule of the whole library for objects that can be moved.
//
// A move assignment ends what the object held, as its destructor would. It never swaps: the old
// resource must not live on in the moved-from object.
//
// A moved-from object may be destroyed and assigned to. Otherwise it is as a closed one: what
// returns a `Result` returns the error of a closed object, what tells a state tells a closed one,
// and `close` does nothing. An object that cannot be closed reports its use with
// `report_moved_from`. So the mistake is never silent, and never undefined behaviour.

/// Terminates the program with a message: "penstock: `object` was used after it was moved from".
[[noreturn]] void report_moved_from(const char* object) noexcept;

/// The state of an object that cannot be closed. Reports a use after the object was moved from.
template <typename T> class MovableState {
public:
    /// `object` is its name in the message: "a tls::Stream".
    explicit MovableState(const char* object, std::unique_ptr<T> state = nullptr) noexcept
        : state_(std::move(state)), object_(object) {}

    MovableState& operator=(std::unique_ptr<T> state) noexcept {
        state_ = std::move(state);
        return *this;
    }

    [[nodiscard]] T& operator*() const noexcept {
        if (!state_) [[unlikely]] {
            report_moved_from(object_);
        }
        return *state_;
    }
    [[nodiscard]] T* operator->() const noexcept { return &**this; }

private:
    std::unique_ptr<T> state_;
    const char* object_;
};

} // namespace penstock::detail
