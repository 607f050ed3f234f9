// The driver of a serial port, answered for here: a pseudo-terminal has no lines, no chip and no counts. It
// stands where the linker binds ioctl(2) and the writes (ld's --wrap).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <linux/serial.h>
#include <sys/ioctl.h>

namespace penstock::testing {

/// What it is told to answer, and what it was asked, in order. Everything that it does not know goes to the
/// kernel's pty. At most one at a time.
class EmulatedDriver {
public:
    EmulatedDriver() { present = this; }
    ~EmulatedDriver() { present = nullptr; }
    EmulatedDriver(const EmulatedDriver&) = delete;
    EmulatedDriver& operator=(const EmulatedDriver&) = delete;

    /// The lines (TIOCM_*), as opening leaves them; without any a driver that has none.
    std::optional<int> lines = TIOCM_RTS | TIOCM_DTR;
    /// How many bytes have not left, one answer after the other; the last one stays. Empty: none.
    std::deque<int> unsent;
    /// Whether the chip has sent the last bit, in the same way. Empty: the driver cannot tell.
    std::deque<bool> sent;
    std::optional<int> fifo;
    std::optional<serial_rs485> rs485;
    std::optional<serial_icounter_struct> counts;
    bool takes_rs485_settings = true;
    /// Requests that fail, each with an errno, for as long as they stand here.
    std::map<unsigned long, int> failing;
    /// The next ioctls are interrupted by signals.
    int interruptions = 0;
    int write_error = 0;
    /// Called at each write, after it.
    std::function<void()> on_write;

    std::vector<std::string> log;

    /// True: answered, with `result` and errno.
    bool answers(unsigned long request, void* argument, int& result);

    static inline EmulatedDriver* present = nullptr;

private:
    void note_line(const char* action, int bits);
    template <typename T> static T next(std::deque<T>& answers, T otherwise);
};

} // namespace penstock::testing
