#pragma once

#include <chrono>
#include <cstdint>

#include <penstock/serial/options.hpp>

struct termios2;

namespace penstock::serial {

/// The kernel's settings for what a program asks. Every flag word is written whole: nothing that an
/// earlier user left behind survives.
[[nodiscard]] struct termios2 line_settings(const Options& options,
                                            const struct termios2& previous) noexcept;

/// Whether the driver has done what it was asked for, as far as it matters for the bytes.
[[nodiscard]] bool is_met(const struct termios2& asked, const struct termios2& got,
                          std::uint32_t baud_rate) noexcept;

/// How long one character takes at a rate: start, data, parity and stop bits.
[[nodiscard]] std::chrono::nanoseconds character_time(const Options& options,
                                                      std::uint32_t baud_rate) noexcept;

} // namespace penstock::serial
