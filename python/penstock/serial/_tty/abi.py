"""The kernel's serial numbers and ``struct termios2`` of the processor that this runs on.

They differ between architectures. The extension takes them from the kernel's headers. If it is
not built, a table of the three most common families is used.
"""

from __future__ import annotations

import errno
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.serial.exceptions import UnsupportedPlatformError

_from_headers: Mapping[str, Any] | None
try:
    from penstock._core import serial_abi as _from_headers
except ImportError:
    _from_headers = None

__all__ = ["ABI", "SerialAbi", "abi_by_table", "require_known_abi"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SerialAbi:
    """Request numbers, flag bits and the layout of ``struct termios2``, as the kernel names them.

    The four flag words come first on every architecture; the offsets give the place of the rest.
    """

    TCGETS2: int
    TCSETS2: int
    TIOCSBRK: int
    TIOCCBRK: int
    TIOCGRS485: int
    TIOCSRS485: int
    TIOCGEXCL: int
    TIOCSERGETLSR: int
    TIOCMIWAIT: int
    TIOCGICOUNT: int
    CBAUD: int
    BOTHER: int
    CMSPAR: int
    termios_size: int
    discipline_offset: int
    control_chars_offset: int
    control_chars_count: int
    input_rate_offset: int
    output_rate_offset: int
    rates: Mapping[int, int]  # bits a second -> their code in c_cflag


# Not from the termios module: since glibc 2.42 its constants are the rates themselves.
_SLOW_RATES = (
    *(50, 75, 110, 134, 150, 200, 300, 600, 1_200, 1_800, 2_400, 4_800, 9_600, 19_200, 38_400),
)
_FAST_RATES = (
    *(57_600, 115_200, 230_400, 460_800, 500_000, 576_000, 921_600, 1_000_000, 1_152_000),
    *(1_500_000, 2_000_000, 2_500_000, 3_000_000, 3_500_000, 4_000_000),
)


def _rates(fast_from: int) -> dict[int, int]:
    return {
        **{rate: 1 + code for code, rate in enumerate(_SLOW_RATES)},
        **{rate: fast_from + code for code, rate in enumerate(_FAST_RATES)},
    }


# asm-generic: x86, arm, arm64, riscv, s390, loongarch and more.
_GENERIC = SerialAbi(
    TCGETS2=0x802C542A,
    TCSETS2=0x402C542B,
    TIOCSBRK=0x5427,
    TIOCCBRK=0x5428,
    TIOCGRS485=0x542E,
    TIOCSRS485=0x542F,
    TIOCGEXCL=0x80045440,
    TIOCSERGETLSR=0x5459,
    TIOCMIWAIT=0x545C,
    TIOCGICOUNT=0x545D,
    CBAUD=0o010017,
    BOTHER=0o010000,
    CMSPAR=0o10000000000,
    termios_size=44,
    discipline_offset=16,
    control_chars_offset=17,
    control_chars_count=19,
    input_rate_offset=36,
    output_rate_offset=40,
    rates=_rates(0o010001),
)
_MIPS = replace(
    _GENERIC,
    TCGETS2=0x4030542A,
    TCSETS2=0x8030542B,
    TIOCGRS485=0x4020542E,
    TIOCSRS485=0xC020542F,
    TIOCGEXCL=0x40045440,
    TIOCSERGETLSR=0x548E,
    TIOCMIWAIT=0x5491,
    TIOCGICOUNT=0x5492,
    termios_size=48,
    control_chars_count=23,
    input_rate_offset=40,
    output_rate_offset=44,
)
# PowerPC has no termios2: its struct termios holds the rates, and TCGETS and TCSETS use it.
_POWERPC = replace(
    _GENERIC,
    TCGETS2=0x402C7413,
    TCSETS2=0x802C7414,
    TIOCGEXCL=0x40045440,
    CBAUD=0xFF,
    BOTHER=0x1F,
    discipline_offset=35,
    control_chars_offset=16,
    rates=_rates(0x10),
)
_NOT_IN_TABLE = ("sparc", "alpha", "parisc", "hppa", "sh")


def abi_by_table(machine: str) -> SerialAbi | None:
    """Return the numbers of a processor as ``platform.machine()`` names it, None if unknown."""
    if machine.startswith("mips"):
        return _MIPS
    if machine.startswith(("ppc", "powerpc")):
        return _POWERPC
    return None if machine.startswith(_NOT_IN_TABLE) else _GENERIC


def _find(headers: Mapping[str, Any] | None) -> SerialAbi | None:
    return abi_by_table(platform.machine()) if headers is None else SerialAbi(**headers)


_found = _find(_from_headers)
ABI = _found or _GENERIC


def require_known_abi() -> None:
    """Raise UnsupportedPlatformError where the kernel's numbers are not known."""
    if _found is None:
        raise UnsupportedPlatformError(
            errno.ENOSYS,
            f"serial ports need Penstock's extension on {platform.machine()} processors; install "
            "a build that has it",
        )
