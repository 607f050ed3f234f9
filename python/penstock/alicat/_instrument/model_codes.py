"""From the letters at the start of a model number to the instrument's kind and medium.

``MC-500SCCM-D`` is an ``MC``: the letters before the first dash are a family and its options
(D dual valve, W low pressure drop, R large valve, S stainless, ...). Alicat combines options
freely and invents new ones, so an unlisted combination (``MCVS``) falls back to the longest
listed beginning of its own family; it is not refused.
"""

from __future__ import annotations

from penstock.alicat._instrument.kinds import DeviceKind, Medium

__all__ = ["is_coriolis_model", "kind_and_media_of_model"]

_FLOW_CONTROLLERS = (
    "MC MCD MCDW MCE MCH MCP MCQ MCR MCRD MCRH MCRW MCRWD MCS MCT MCV MCW SFF BC IMC"
)
_FLOW_METERS = "M MB MBS MQ MS MW MWB B IM"
_PRESSURE_CONTROLLERS = "PC PC3 PCAS PCD PCD3 PCH PCP PCPD PCR PCR3 PCRD PCRD3 PCS EPC EPCD IVC"
_PRESSURE_CONTROLLERS_ANY_MEDIUM = "PCDS PCRDS PCRD3S"
_PRESSURE_METERS = "P PB PS EP"
_LIQUID_CONTROLLERS = "LC LCR"
_LIQUID_METERS = "L LB"
_CORIOLIS_METERS = "K KM"
_CORIOLIS_CONTROLLERS = "KC KF KG"

_EITHER = Medium.GAS | Medium.LIQUID

_RULES: dict[str, tuple[DeviceKind, Medium]] = {
    letters: (kind, medium)
    for names, kind, medium in (
        (_FLOW_CONTROLLERS, DeviceKind.FLOW_CONTROLLER, Medium.GAS),
        (_FLOW_METERS, DeviceKind.FLOW_METER, Medium.GAS),
        (_PRESSURE_CONTROLLERS, DeviceKind.PRESSURE_CONTROLLER, Medium.GAS),
        (_PRESSURE_CONTROLLERS_ANY_MEDIUM, DeviceKind.PRESSURE_CONTROLLER, _EITHER),
        (_PRESSURE_METERS, DeviceKind.PRESSURE_METER, Medium.GAS),
        (_LIQUID_CONTROLLERS, DeviceKind.FLOW_CONTROLLER, Medium.LIQUID),
        (_LIQUID_METERS, DeviceKind.FLOW_METER, Medium.LIQUID),
        (_CORIOLIS_METERS, DeviceKind.FLOW_METER, _EITHER),
        (_CORIOLIS_CONTROLLERS, DeviceKind.FLOW_CONTROLLER, _EITHER),
    )
    for letters in names.split()
}


def is_coriolis_model(model: str | None) -> bool:
    """Whether a model number is one of the CODA line (``KC-5KG-D``)."""
    return _letters_of(model) in f"{_CORIOLIS_METERS} {_CORIOLIS_CONTROLLERS}".split()


def kind_and_media_of_model(model: str | None) -> tuple[DeviceKind, Medium]:
    """The kind and media of a model number; ``(UNKNOWN, NONE)`` if it does not determine them."""
    letters = _letters_of(model)
    exact = _RULES.get(letters)
    if exact is not None:
        return exact
    # A single letter does not determine a longer word: "MAGIC" is not an M meter.
    for length in range(len(letters) - 1, 1, -1):
        rule = _RULES.get(letters[:length])
        if rule is not None:
            return rule
    return DeviceKind.UNKNOWN, Medium.NONE


def _letters_of(model: str | None) -> str:
    return (model or "").strip().upper().partition("-")[0]
