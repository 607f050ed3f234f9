"""Units of instruments as Grafana knows them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["grafana_unit"]

_UNITS: Mapping[str, str] = MappingProxyType(
    {
        "%": "percent",
        "°C": "celsius",
        "`C": "celsius",
        "C": "celsius",
        "°F": "fahrenheit",
        "`F": "fahrenheit",
        "F": "fahrenheit",
        "K": "kelvin",
        "`K": "kelvin",
        "V": "volt",
        "mV": "mvolt",
        "A": "amp",
        "mA": "mamp",
        "s": "s",
        "ms": "ms",
    }
)


def grafana_unit(unit: str | None) -> str:
    """The unit's id; a suffix for one that Grafana has not, or would scale.

    Pressures are suffixes on purpose: Grafana's own ``pressurepsi`` shows 1500 as 1.5 ksi.
    """
    if unit is None:
        return "none"
    return _UNITS.get(unit, f"suffix: {unit}")
