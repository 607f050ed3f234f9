#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace penstock::serial {

enum class Parity : unsigned char { none, odd, even, mark, space };

enum class StopBits : unsigned char { one, two };

/// How an RS-485 transceiver is switched: by the driver (struct serial_rs485 of the kernel), to the bit, or
/// in software, by the port.
struct Rs485 {
    bool enabled = true; ///< false switches the mode off that the driver had
    bool rts_on_send = true;
    bool rts_after_send = false;
    bool receive_during_send = false; ///< the driver's; in software it is as the adapter is wired
    std::chrono::milliseconds delay_before_send{0};
    std::chrono::milliseconds delay_after_send{0};
    /// The port itself sets RTS before each write, waits until the last bit is on the wire, and lets the
    /// bus go: for drivers that cannot, and for buses that bear a millisecond or more of silence at
    /// either end. The driver's own mode is left alone, or put back.
    bool software = false;

    [[nodiscard]] friend bool operator==(const Rs485&, const Rs485&) = default;
};

/// How a serial line is used.
struct Options {
    std::uint32_t baud_rate = 115'200; ///< any that the driver can make, within 2.5 %
    unsigned byte_size = 8;            ///< bits: 5 to 8
    Parity parity = Parity::none;
    StopBits stop_bits = StopBits::one;
    bool xon_xoff = false; ///< software flow control, in both directions
    bool rts_cts = false;  ///< hardware flow control

    /// Nobody else may open the port (TIOCEXCL), nor lock it (flock(2)), while this one has it. Without
    /// this the lock is a shared one: any number of such ports beside each other, none beside one that
    /// is exclusive.
    bool exclusive = true;
    /// Drops DTR when the last user closes the port: a modem hangs up, many boards reset.
    bool hangup_on_close = true;
    /// Asks the driver not to gather bytes (ASYNC_LOW_LATENCY).
    bool low_latency = false;
    std::optional<Rs485> rs485{}; ///< without a value the driver's mode stays as it is
    /// `low_latency` and `rs485` are left out where the driver has no such thing, instead of being
    /// refused. What decides how bytes look on the wire is never left out.
    bool ignore_unsupported = false;
    /// Characters that arrive damaged are marked in the stream (PARMRK, termios(3)): FF 00 and the
    /// character for a parity or framing error, FF 00 00 for a break, FF FF for an FF that is none.
    /// Otherwise they come as they are.
    bool mark_errors = false;
    /// The lines from the moment of opening on; without a value what opening did, which on most
    /// drivers is to raise both. `Port::configure` does not move them.
    std::optional<bool> initial_rts{};
    std::optional<bool> initial_dtr{};

    [[nodiscard]] friend bool operator==(const Options&, const Options&) = default;
};

} // namespace penstock::serial
