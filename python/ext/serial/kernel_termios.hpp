#pragma once

#include <asm/ioctls.h>
#include <asm/termbits.h>

namespace penstock::python {

#ifdef TCGETS2
using KernelTermios = struct termios2;
#else // PowerPC, whose struct termios holds the rates
using KernelTermios = struct termios;
#define TCGETS2 TCGETS
#define TCSETS2 TCSETS
#endif

} // namespace penstock::python
