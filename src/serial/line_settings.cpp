#include "serial/line_settings.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>

// termios2 of the kernel, with the values of this architecture. <termios.h> has neither.
#include <asm/termbits.h>

namespace penstock::serial {

namespace {

struct Rate {
    std::uint32_t bits_per_second;
    tcflag_t code;
};

// The rates with a code of their own. Other programs, and glibc's tcgetattr, read these back
// correctly.
constexpr Rate standard_rates[] = {
    {50, B50},           {75, B75},           {110, B110},         {134, B134},
    {150, B150},         {200, B200},         {300, B300},         {600, B600},
    {1200, B1200},       {1800, B1800},       {2400, B2400},       {4800, B4800},
    {9600, B9600},       {19200, B19200},     {38400, B38400},     {57600, B57600},
    {115200, B115200},   {230400, B230400},   {460800, B460800},   {500000, B500000},
    {576000, B576000},   {921600, B921600},   {1000000, B1000000}, {1152000, B1152000},
    {1500000, B1500000}, {2000000, B2000000},
#ifdef B2500000 // not on SPARC
    {2500000, B2500000}, {3000000, B3000000}, {3500000, B3500000}, {4000000, B4000000},
#endif
};

// CMSPAR has the same value everywhere, but some architectures' headers lack it.
#ifndef CMSPAR
constexpr tcflag_t CMSPAR = 010000000000;
#endif

tcflag_t size_bits(unsigned byte_size) noexcept {
    switch (byte_size) {
    case 5:
        return CS5;
    case 6:
        return CS6;
    case 7:
        return CS7;
    default:
        return CS8;
    }
}

tcflag_t parity_bits(Parity parity) noexcept {
    switch (parity) {
    case Parity::none:
        return 0;
    case Parity::odd:
        return PARENB | PARODD;
    case Parity::even:
        return PARENB;
    case Parity::mark:
        return PARENB | PARODD | CMSPAR;
    case Parity::space:
        return PARENB | CMSPAR;
    }
    return 0;
}

} // namespace

LineSettings line_settings(const Options& options, const LineSettings& previous) noexcept {
    LineSettings line = previous;
    line.c_iflag = options.xon_xoff ? IXON | IXOFF : 0;
    if (options.mark_errors) { // without marks, checked parity would turn damaged bytes into zeros
        line.c_iflag |= options.parity == Parity::none ? PARMRK : PARMRK | INPCK;
    }
    line.c_oflag = 0;
    line.c_lflag = 0;
    line.c_cflag = CREAD | CLOCAL | size_bits(options.byte_size) | parity_bits(options.parity);
    line.c_cflag |= options.stop_bits == StopBits::two ? CSTOPB : 0;
    line.c_cflag |= options.rts_cts ? CRTSCTS : 0;
    line.c_cflag |= options.hangup_on_close ? HUPCL : 0;
    const auto* rate = std::ranges::find(standard_rates, options.baud_rate, &Rate::bits_per_second);
    line.c_cflag |= rate != std::end(standard_rates) ? rate->code : BOTHER;
    line.c_ispeed = line.c_ospeed = options.baud_rate;
    line.c_cc[VMIN] = 1;
    line.c_cc[VTIME] = 0;
    line.c_cc[VSTART] = 0x11;
    line.c_cc[VSTOP] = 0x13;
    return line;
}

bool is_applied(const LineSettings& asked, const LineSettings& got,
                std::uint32_t baud_rate) noexcept {
    constexpr tcflag_t matters = CSIZE | PARENB | PARODD | CMSPAR | CSTOPB | CRTSCTS;
    // A pty accepts any rate, but drops parity because it has no line.
    const double off = std::abs(static_cast<double>(got.c_ospeed) - baud_rate) / baud_rate;
    return ((asked.c_cflag ^ got.c_cflag) & matters) == 0 && off <= 0.025;
}

std::chrono::nanoseconds character_time(const Options& options, std::uint32_t baud_rate) noexcept {
    const std::uint64_t bits = 1 + options.byte_size + (options.parity == Parity::none ? 0 : 1) +
                               (options.stop_bits == StopBits::two ? 2 : 1);
    return std::chrono::nanoseconds(bits * std::nano::den / std::max(baud_rate, 1U));
}

} // namespace penstock::serial
