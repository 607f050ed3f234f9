"""The three-letter codes that an instrument appends to its data frame."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["NO_STATUS", "STATUS_BY_TOKEN", "StatusCode"]


class StatusCode(StrEnum):
    """A condition that the instrument reports with every data frame while it lasts."""

    ADC = "ADC"
    """The analogue-to-digital converter does not answer."""
    EXH = "EXH"
    """The exhaust valve is held open by hand."""
    HLD = "HLD"
    """The valve drive is held where it is."""
    LCK = "LCK"
    """The buttons of the front panel are locked."""
    MOV = "MOV"
    """Mass flow is beyond the sensor's range."""
    OPL = "OPL"
    """The over-pressure limit is acting."""
    OVR = "OVR"
    """The totalizer rolled over or stands at its maximum."""
    POV = "POV"
    """Pressure is beyond the sensor's range."""
    P2O = "P2O"
    """The second pressure sensor is beyond its range."""
    TMF = "TMF"
    """The totalizer missed flow, usually while MOV or VOV was on."""
    TOV = "TOV"
    """Temperature is beyond the sensor's range."""
    VTM = "VTM"
    """BASIS: the valve is driven beyond its limit."""
    VOV = "VOV"
    """Volumetric flow is beyond the sensor's range."""
    COM = "COM"
    """Advertised by 10v firmware; the captures do not say more than that it concerns
    communication."""
    GTA = "GTA"
    """Advertised by 10v20 firmware; its meaning is not stated in the captures."""


NO_STATUS: frozenset[StatusCode] = frozenset()
STATUS_BY_TOKEN: dict[bytes, StatusCode] = {code.value.encode(): code for code in StatusCode}
