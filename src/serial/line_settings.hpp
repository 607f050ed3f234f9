#pragma once

#include <chrono>
#include <cstdint>

#include <penstock/serial/options.hpp>

// The kernel's own settings, which the C library's <termios.h> does not know and must not be included
// beside. PowerPC has no termios2: its struct termios has always had the rates.
#include <asm/ioctls.h>
#include <asm/termbits.h>

namespace penstock::serial {

#ifdef TCGETS2
using LineSettings = struct termios2;
inline constexpr unsigned long get_line_settings = TCGETS2;
inline constexpr unsigned long set_line_settings = TCSETS2;
#else
using LineSettings = struct termios;
inline constexpr unsigned long get_line_settings = TCGETS;
inline constexpr unsigned long set_line_settings = TCSETS;
#endif

/// The kernel's settings for what a program asks. Every flag word is written whole: nothing that an
/// earlier user left behind survives.
[[nodiscard]] LineSettings line_settings(const Options& options,
                                         const LineSettings& previous) noexcept;

/// Whether the driver has done what it was asked for, as far as it matters for the bytes.
[[nodiscard]] bool is_met(const LineSettings& asked, const LineSettings& got,
                          std::uint32_t baud_rate) noexcept;

/// How long one character takes at a rate: start, data, parity and stop bits.
[[nodiscard]] std::chrono::nanoseconds character_time(const Options& options,
                                                      std::uint32_t baud_rate) noexcept;

} // namespace penstock::serial
