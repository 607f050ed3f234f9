"""The metadata that every file of a recording carries: who measured what, in which units."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from penstock import __version__

from .source import FieldSchemaLike

__all__ = ["describe_recording", "known_unit_id"]

# Names that instrument families commonly give what identifies an instrument; those that a device
# does not have are left out.
_IDENTITY = (
    "manufacturer",
    "model",
    "serial",
    "manufactured",
    "calibrated",
    "calibrated_by",
    "firmware",
    "firmware_date",
    "software",
    "kind",
)


def describe_recording(
    source: object,
    names: Sequence[str],
    schemas: Mapping[str, Sequence[FieldSchemaLike]],
    *,
    rate_hz: float,
    started_at: datetime,
) -> str:
    """The metadata as JSON text. Devices tell about themselves through ``source.get(name).info``,
    where the source has such a method."""
    devices: dict[str, Any] = {}
    for name in names:
        entry: dict[str, Any] = {"unit_id": known_unit_id(source, name)}
        info = getattr(_device(source, name), "info", None)
        for attribute in _IDENTITY:
            value = getattr(info, attribute, None)
            if value is not None:
                entry[attribute] = str(getattr(value, "value", value))
        entry["units"] = {
            field.name: field.unit for field in schemas.get(name, ()) if field.unit is not None
        }
        devices[name] = entry
    return json.dumps(
        {
            "software": f"penstock {__version__}",
            "started_at": started_at.isoformat(),
            "rate_hz": rate_hz,
            "devices": devices,
        },
        ensure_ascii=False,
    )


def known_unit_id(source: object, name: str) -> str | None:
    """The unit id of a device that has not answered yet, if the source knows it."""
    device = _device(source, name)
    unit_id = getattr(device, "unit_id", None)
    if unit_id is None:
        unit_id = getattr(getattr(device, "info", None), "unit_id", None)
    return unit_id if isinstance(unit_id, str) else None


def _device(source: object, name: str) -> object | None:
    get = getattr(source, "get", None)
    if not callable(get):
        return None
    device: object = get(name)
    return device
