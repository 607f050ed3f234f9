#pragma once

#include <cstdint>

namespace penstock::serial {

/// The modem lines driven by the remote side.
struct ModemLines {
    bool cts = false;
    bool dsr = false;
    bool ri = false;
    bool cd = false;

    [[nodiscard]] friend bool operator==(const ModemLines&, const ModemLines&) = default;
};

/// The modem lines driven by this side.
struct ControlLines {
    bool rts = false;
    bool dtr = false;

    [[nodiscard]] friend bool operator==(const ControlLines&, const ControlLines&) = default;
};

/// The driver's counters since it was loaded, 32 bits wide (TIOCGICOUNT). Compare two readings.
struct ErrorCounters {
    std::uint32_t received = 0;
    std::uint32_t sent = 0;
    std::uint32_t framing_errors = 0;
    std::uint32_t parity_errors = 0;
    std::uint32_t overruns = 0;        ///< lost in the UART: its FIFO was full
    std::uint32_t buffer_overruns = 0; ///< lost in the kernel: its buffer was full
    std::uint32_t breaks = 0;

    [[nodiscard]] friend bool operator==(const ErrorCounters&, const ErrorCounters&) = default;
};

} // namespace penstock::serial
