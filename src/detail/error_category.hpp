#pragma once

#include <string>
#include <system_error>

#include <penstock/io/never_destroyed.hpp>

namespace penstock::detail {

/// The category of the codes whose meaning `Meaning` states by static members: `name`, a text;
/// `message(int)`; and, if some codes are equal to general conditions, `condition(int)`, which
/// returns `std::errc()` for the others.
///
/// `equivalent` is that of std::error_category. The HTTP client's category has its own, so it is
/// not one of these.
template <class Meaning> class ErrorCategory final : public std::error_category {
public:
    [[nodiscard]] const char* name() const noexcept override { return Meaning::name; }

    [[nodiscard]] std::string message(int value) const override { return Meaning::message(value); }

    [[nodiscard]] std::error_condition default_error_condition(int value) const noexcept override {
        if constexpr (requires { Meaning::condition(value); }) {
            if (const std::errc condition = Meaning::condition(value); condition != std::errc()) {
                return condition;
            }
        }
        return {value, *this};
    }
};

/// The only object of a category. It exists also while objects of static storage are destroyed.
template <class Meaning> const std::error_category& category_of() noexcept {
    static const io::NeverDestroyed<ErrorCategory<Meaning>> category;
    return *category;
}

/// The message of a code that a category does not have.
inline std::string unknown_error(int value) {
    return "unknown error " + std::to_string(value);
}

} // namespace penstock::detail
