#include <penstock/errors.hpp>

#include <string>

#include <penstock/io/never_destroyed.hpp>

namespace penstock {

namespace {

class Category final : public std::error_category {
public:
    [[nodiscard]] const char* name() const noexcept override { return "penstock"; }

    [[nodiscard]] std::string message(int value) const override {
        switch (static_cast<Error>(value)) {
        case Error::end_of_stream:
            return "the stream ended before the requested bytes arrived";
        case Error::channel_closed:
            return "the channel is closed";
        case Error::broken_promise:
            return "the promise was destroyed without a result";
        }
        return "unknown error " + std::to_string(value);
    }
};

} // namespace

const std::error_category& error_category() noexcept {
    static const io::NeverDestroyed<Category> category;
    return *category;
}

} // namespace penstock
