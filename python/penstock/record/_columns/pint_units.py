"""Recorded fields as quantities of pint."""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from penstock.record.arrow import pyarrow_module, unit_for, units_of
from penstock.record.errors import RecordError

if TYPE_CHECKING:
    from penstock.record.view import StoredRecording

__all__ = ["quantity_of"]

# Units of flow at standard (S) and normal (N) conditions: volumes of their own kind, since they
# count particles. They convert to each other's prefixes and times, never to a volume of pipe.
_DEFINITIONS = (
    "standard_liter = [standard_volume] = SL",
    "normal_liter = [normal_volume] = NL",
    "SLPM = standard_liter / minute",
    "SLM = standard_liter / minute",
    "SCCM = standard_liter / minute / 1000",
    "SLPS = standard_liter / second",
    "SCCS = standard_liter / second / 1000",
    "NLPM = normal_liter / minute",
    "NCCM = normal_liter / minute / 1000",
    "LPM = liter / minute",
    "CCM = cm ** 3 / minute",
    "PSIA = psi",
    "PSIG = psi",
    "PSID = psi",
    "barA = bar",
    "barG = bar",
)


@lru_cache(maxsize=1)
def _registry() -> Any:
    registry = importlib.import_module("pint").UnitRegistry(autoconvert_offset_to_baseunit=True)
    for definition in _DEFINITIONS:
        registry.define(definition)
    return registry


def quantity_of(recording: StoredRecording, name: str, device: str, registry: Any) -> Any:
    """See :meth:`StoredRecording.quantity`."""
    compute = pyarrow_module("pyarrow.compute")
    pa = pyarrow_module()
    units, values = set(), []
    for table in recording.tables():
        if name not in table.schema.names:
            continue
        units.add(unit_for(units_of(table.schema), name, device))
        rows = table.filter(compute.equal(table["device"].cast(pa.string()), device))
        values.append(rows[name])
    if len(units) != 1 or None in units:
        found = ", ".join(sorted(map(str, units))) or "no such field"
        raise RecordError(f"{name!r} of {device!r} has not one unit in {recording.path}: {found}")
    numbers = pa.chunked_array(
        [chunk for column in values for chunk in column.chunks], pa.float64()
    )
    registry = _registry() if registry is None else registry
    unit = units.pop()
    # Alicat prints temperature as a letter with a degree sign or a backtick before it.
    return registry.Quantity(numbers.to_numpy(), _TEMPERATURES.get(str(unit), str(unit)))


_TEMPERATURES = {
    "`C": "degC",
    "°C": "degC",
    "C": "degC",
    "`F": "degF",
    "°F": "degF",
    "F": "degF",
    "`K": "K",
}
