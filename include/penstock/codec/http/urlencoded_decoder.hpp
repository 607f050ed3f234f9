#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <penstock/codec/http/form.hpp>

namespace penstock::codec::http {

/// Splits application/x-www-form-urlencoded into pairs of name and value, in their order (WHATWG
/// URL, 5.1). It keeps only the pair that has begun.
///
///     http::UrlencodedDecoder form;
///     for (auto pair = form.next(received); pair.kind == Kind::pair; pair = form.next(received))
///         use(pair.name, pair.value);      // and form.finish() when the body has ended
///
/// The events do not depend on how the input is split. Functions throw `std::bad_alloc`.
class UrlencodedDecoder {
public:
    struct Event {
        enum class Kind : std::uint8_t {
            incomplete, ///< all input is taken, and more is needed
            pair,       ///< `name` and `value`, decoded; valid until the next call
            end,        ///< only by `finish`: there are no more
            failed,     ///< `error()` gives the reason
        };
        Kind kind = Kind::incomplete;
        std::string_view name;
        std::string_view value;
    };

    explicit UrlencodedDecoder(const FormLimits& limits = {}) noexcept : limits_(limits) {}

    /// Takes the next pair from the front of `input`.
    [[nodiscard]] Event next(std::string_view& input);

    /// The body has ended: gives the last pair, and `end` after it.
    [[nodiscard]] Event finish();

    [[nodiscard]] FormError error() const noexcept { return error_; }

private:
    [[nodiscard]] bool take(std::string_view text);
    [[nodiscard]] Event complete();
    [[nodiscard]] Event fail(FormError error) noexcept;

    FormLimits limits_;
    FormError error_ = FormError::none;
    std::string raw_;                           // of the pair that has begun
    std::size_t name_size_ = std::string::npos; // of `raw_`, once there was a '='
    std::string name_;
    std::string value_;
    std::size_t pairs_ = 0;
    std::uint64_t total_ = 0;
};

} // namespace penstock::codec::http
