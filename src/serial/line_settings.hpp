#pragma once

#include <chrono>
#include <cstdint>

#include <penstock/serial/options.hpp>

// The kernel's own settings. The C library's <termios.h> lacks them and conflicts with their
// header. PowerPC has no termios2: its struct termios has always had the rates.
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

/// The kernel's settings for the options. Writes every flag word completely, so nothing of an
/// earlier user remains.
[[nodiscard]] LineSettings line_settings(const Options& options,
                                         const LineSettings& previous) noexcept;

/// Whether the driver has applied everything that affects the bytes on the wire.
[[nodiscard]] bool is_applied(const LineSettings& asked, const LineSettings& got,
                              std::uint32_t baud_rate) noexcept;

/// The time of one character at a rate: start, data, parity and stop bits.
[[nodiscard]] std::chrono::nanoseconds character_time(const Options& options,
                                                      std::uint32_t baud_rate) noexcept;

} // namespace penstock::serial
