#include <penstock/errors.hpp>

#include <string>

#include "detail/error_category.hpp"

namespace penstock {

namespace {

struct LibraryErrors {
    static constexpr const char* name = "penstock";

    static std::string message(int value) {
        switch (static_cast<Error>(value)) {
        case Error::end_of_stream:
            return "the stream ended before the requested bytes arrived";
        case Error::channel_closed:
            return "the channel is closed";
        case Error::broken_promise:
            return "the promise was destroyed without a result";
        }
        return detail::unknown_error(value);
    }
};

} // namespace

const std::error_category& error_category() noexcept {
    return detail::category_of<LibraryErrors>();
}

} // namespace penstock
