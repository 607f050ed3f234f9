#pragma once

#include <cstdint>

namespace penstock::serial {

/// The modem lines that the other side drives.
struct ModemLines {
    bool cts = false;
    bool dsr = false;
    bool ri = false;
    bool cd = false;

    [[nodiscard]] friend bool operator==(const ModemLines&, const ModemLines&) = default;
};

/// The lines that this side drives.
struct ControlLines {
    bool rts = false;
    bool dtr = false;

    [[nodiscard]] friend bool operator==(const ControlLines&, const ControlLines&) = default;
};

/// What the driver has counted since it began, in 32 bits (TIOCGICOUNT): compare two readings.
struct ErrorCounters {
    std::uint32_t received = 0;
    std::uint32_t sent = 0;
    std::uint32_t framing_errors = 0;
    std::uint32_t parity_errors = 0;
    std::uint32_t overruns = 0;        ///< lost by the chip: nobody fetched them in time
    std::uint32_t buffer_overruns = 0; ///< lost by the kernel: nobody read them
    std::uint32_t breaks = 0;

    [[nodiscard]] friend bool operator==(const ErrorCounters&, const ErrorCounters&) = default;
};

} // namespace penstock::serial
