#pragma once

#include <bit>
#include <concepts>
#include <cstring>

namespace penstock::python::record {

/// A number whose bytes, as this machine stores it, are in the given order; and back.
template <std::endian Order, std::unsigned_integral T>
[[nodiscard]] constexpr T in_order(T value) noexcept {
    if constexpr (std::endian::native == Order || sizeof(T) == 1) {
        return value;
    } else if constexpr (sizeof(T) == 8) {
        return __builtin_bswap64(value);
    } else if constexpr (sizeof(T) == 4) {
        return __builtin_bswap32(value);
    } else {
        static_assert(sizeof(T) == 2);
        return __builtin_bswap16(value);
    }
}

/// Writes a number in the given order of bytes. Returns the place behind it.
template <std::endian Order, std::unsigned_integral T>
char* put_number(char* out, T value) noexcept {
    value = in_order<Order>(value);
    std::memcpy(out, &value, sizeof value);
    return out + sizeof value;
}

/// Reads one.
template <std::endian Order, std::unsigned_integral T>
[[nodiscard]] T number_at(const void* data) noexcept {
    T value;
    std::memcpy(&value, data, sizeof value);
    return in_order<Order>(value);
}

} // namespace penstock::python::record
