// An emulated serial driver. A pseudo-terminal has no modem lines, UART or counters. It replaces
// ioctl(2) and the writes at link time (ld's --wrap).
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

/// The configured answers and a log of the requests. Unknown requests go to the kernel's pty. At
/// most one exists at a time.
class EmulatedDriver {
public:
    EmulatedDriver() { present = this; }
    ~EmulatedDriver() { present = nullptr; }
    EmulatedDriver(const EmulatedDriver&) = delete;
    EmulatedDriver& operator=(const EmulatedDriver&) = delete;

    /// The modem lines (TIOCM_*) after opening. Without a value the driver has none.
    std::optional<int> lines = TIOCM_RTS | TIOCM_DTR;
    /// The number of unsent bytes, one answer after the other. The last one repeats. Empty: 0.
    std::deque<int> unsent;
    /// Whether the last bit was sent, in the same way. Empty: the driver cannot report it.
    std::deque<bool> sent;
    std::optional<int> fifo;
    std::optional<serial_rs485> rs485;
    std::optional<serial_icounter_struct> counts;
    bool takes_rs485_settings = true;
    /// Requests that fail with an errno while they are listed here.
    std::map<unsigned long, int> failing;
    /// Signals interrupt this many of the next ioctls.
    int interruptions = 0;
    int write_error = 0;
    /// Called after each write.
    std::function<void()> on_write;

    std::vector<std::string> log;

    /// Returns true if it has answered, with `result` and errno.
    bool answers(unsigned long request, void* argument, int& result);

    static inline EmulatedDriver* present = nullptr;

private:
    void note_line(const char* action, int bits);
    template <typename T> static T next(std::deque<T>& answers, T otherwise);
};

} // namespace penstock::testing
