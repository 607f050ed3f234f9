#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace penstock::serial {

enum class Parity : unsigned char { none, odd, even, mark, space };

enum class StopBits : unsigned char { one, two };

/// How an RS-485 transceiver is switched between sending and receiving: by the driver, to the bit
/// (struct serial_rs485 of the kernel), or in software by the port.
struct Rs485 {
    bool enabled = true;         ///< false turns off the driver's mode
    bool rts_on_send = true;     ///< the state of RTS while sending
    bool rts_after_send = false; ///< the state of RTS otherwise
    /// Receives what this side sends. In the driver's mode only: in software the wiring decides.
    bool receive_during_send = false;
    std::chrono::milliseconds delay_before_send{0};
    std::chrono::milliseconds delay_after_send{0};
    /// The port sets RTS before each write, waits until the last bit is on the wire, and releases
    /// the bus. For drivers without RS-485 support, on buses that tolerate a millisecond or more of
    /// silence before and after a message. The port leaves the driver's own mode as it was before
    /// the port was opened.
    bool software = false;

    [[nodiscard]] friend bool operator==(const Rs485&, const Rs485&) = default;
};

/// The settings of a serial line.
struct Options {
    std::uint32_t baud_rate = 115'200; ///< any rate that the driver can produce within 2.5 %
    unsigned byte_size = 8;            ///< bits: 5 to 8
    Parity parity = Parity::none;
    StopBits stop_bits = StopBits::one;
    bool xon_xoff = false; ///< software flow control, in both directions
    bool rts_cts = false;  ///< hardware flow control

    /// Prevents others from opening the port (TIOCEXCL) and from locking it (flock(2)). Without
    /// this the port takes a shared lock: any number of non-exclusive users, but no exclusive one.
    bool exclusive = true;
    /// Drops DTR when the last user closes the port. A modem hangs up, many boards reset.
    bool hangup_on_close = true;
    /// Asks the driver to deliver bytes without delay (ASYNC_LOW_LATENCY).
    bool low_latency = false;
    std::optional<Rs485> rs485{}; ///< without a value the driver's mode is not changed
    /// Ignores `low_latency` and `rs485` if the driver does not support them, instead of failing.
    /// Settings that change the bytes on the wire are never ignored.
    bool ignore_unsupported = false;
    /// Marks damaged characters in the stream (PARMRK, termios(3)): FF 00 and the character for a
    /// parity or framing error, FF 00 00 for a break, FF FF for a valid FF. Otherwise they are not
    /// marked.
    bool mark_errors = false;
    /// The state of the lines from opening on. Without a value they stay as open(2) leaves them:
    /// most drivers raise both. `Port::configure` does not change them.
    std::optional<bool> initial_rts{};
    std::optional<bool> initial_dtr{};

    [[nodiscard]] friend bool operator==(const Options&, const Options&) = default;
};

} // namespace penstock::serial
