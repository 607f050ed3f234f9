// This architecture's serial ioctl numbers and structure layouts, from the kernel's headers.
//
// In a file of its own: <asm/termbits.h> and the C library's <termios.h> both define struct
// termios.

#include "core/module.hpp"
#include "serial/kernel_termios.hpp"

#include <cstddef>

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <linux/serial.h>

namespace penstock::python {

namespace {

/// The c_cflag code of each standard rate.
Ref make_rates() noexcept {
    const struct {
        unsigned long rate;
        unsigned long code;
    } standard[] = {
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
    Ref rates(PyDict_New());
    for (const auto& [rate, code] : standard) {
        const Ref key(PyLong_FromUnsignedLong(rate));
        const Ref value(PyLong_FromUnsignedLong(code));
        if (!rates || !key || !value || PyDict_SetItem(rates.get(), key.get(), value.get()) != 0) {
            return Ref();
        }
    }
    return rates;
}

Ref make_abi() noexcept {
    const struct {
        const char* name;
        unsigned long value;
    } numbers[] = {
        {"TCGETS2", TCGETS2},
        {"TCSETS2", TCSETS2},
        {"TIOCSBRK", TIOCSBRK},
        {"TIOCCBRK", TIOCCBRK},
        {"TIOCGRS485", TIOCGRS485},
        {"TIOCSRS485", TIOCSRS485},
        {"TIOCGEXCL", TIOCGEXCL},
        {"TIOCSERGETLSR", TIOCSERGETLSR},
        {"TIOCMIWAIT", TIOCMIWAIT},
        {"TIOCGICOUNT", TIOCGICOUNT},
        {"CBAUD", CBAUD},
        {"BOTHER", BOTHER},
        {"CMSPAR", CMSPAR},
        {"termios_size", sizeof(KernelTermios)},
        {"discipline_offset", offsetof(KernelTermios, c_line)},
        {"control_chars_offset", offsetof(KernelTermios, c_cc)},
        {"control_chars_count", NCCS},
        {"input_rate_offset", offsetof(KernelTermios, c_ispeed)},
        {"output_rate_offset", offsetof(KernelTermios, c_ospeed)},
    };
    Ref abi(PyDict_New());
    for (const auto& [name, value] : numbers) {
        const Ref number(PyLong_FromUnsignedLong(value));
        if (!abi || !number || PyDict_SetItemString(abi.get(), name, number.get()) != 0) {
            return Ref();
        }
    }
    const Ref rates = make_rates();
    if (!rates || PyDict_SetItemString(abi.get(), "rates", rates.get()) != 0) {
        return Ref();
    }
    return abi;
}

} // namespace

bool add_serial_abi(PyObject* module) {
    const Ref abi = make_abi();
    return abi && PyModule_AddObjectRef(module, "serial_abi", abi.get()) == 0;
}

} // namespace penstock::python
