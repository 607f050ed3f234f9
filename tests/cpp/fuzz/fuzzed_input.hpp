#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

namespace penstock::testing {

/// The bytes of one fuzzing run: the first ones choose, the rest is what a parser gets.
class FuzzedInput {
public:
    FuzzedInput(const std::uint8_t* data, std::size_t size) : bytes_(data, size) {}

    /// Takes the first byte; 0 if there is none.
    std::uint8_t choice() {
        if (bytes_.empty()) {
            return 0;
        }
        const std::uint8_t first = bytes_.front();
        bytes_ = bytes_.subspan(1);
        return first;
    }

    [[nodiscard]] std::string_view text() const {
        return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
    }

private:
    std::span<const std::uint8_t> bytes_;
};

/// Ends the run as a finding.
inline void require(bool holds) {
    if (!holds) {
        std::abort();
    }
}

} // namespace penstock::testing
