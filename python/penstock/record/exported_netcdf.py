"""Arrow tables as a netCDF-4 file, which is an HDF5 file, a slice at a time.

The form is chosen for those who read it: xarray, pandas, h5py, MATLAB and Octave.

- One group a device, each with its own dimension ``row``. A table of all devices would be a ragged
  array, which only some programs put in order again.
- ``time(row)`` is an auxiliary coordinate, not a coordinate ``row(row)``: two rows may have one
  moment, and a clock may be set back, which CF forbids for a coordinate. It counts microseconds
  since 1970, which every program can read; ``t_ns`` has the nanoseconds.
- Texts are arrays of characters, and attributes too: Octave reads no file with a netCDF string in
  it. Truth values are bytes, with ``flag_meanings``.
- ``units`` is a unit of UDUNITS, where there is one of the same meaning; ``penstock_units`` is the
  instrument's own word.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from penstock.record.arrow import METADATA_KEY, pyarrow_module, unit_for, units_of
from penstock.record.errors import RecordError, SinkDependencyError

__all__ = ["write_netcdf"]

_CHUNK_ROWS = 16_384
_SLICE_ROWS = 65_536
_MOST_WAITING = 32 << 20
_EPOCH = "microseconds since 1970-01-01 00:00:00"
_NO_INTEGER = -(2**63)
_NO_TRUTH = -1
_EVENTS = "events"
_LONG_NAMES = {
    "t_utc": "time of reception",
    "requested_at": "time of the request",
    "received_at": "time of reception",
    "t_mono_ns": "reception on the monotonic clock, nanoseconds",
    "latency_s": "reception minus request",
    "late_s": "how late the poll began",
    "first_byte_s": "first byte minus request",
}
_SECONDS = ("latency_s", "late_s", "first_byte_s")


def write_netcdf(tables: Iterable[Any], schema: Any, file: Any) -> None:
    """Write tables of one schema to an open file, through its descriptor.

    Raises:
        SinkDependencyError: without the packages h5netcdf and h5py.
        RecordError: two devices would have one name in the file.
        OSError: if the disk refuses.
    """
    try:
        # h5netcdf writes by h5py, and since 1.8 does not require it.
        h5py = importlib.import_module("h5py")
        library = importlib.import_module("h5netcdf")
    except ImportError as error:
        raise SinkDependencyError(
            "netCDF and HDF5 need the packages h5netcdf and h5py: install them with  "
            "pip install 'penstock[netcdf]'"
        ) from error
    # By its descriptor: the file has no name yet, and HDF5 also reads what it has written.
    path = f"/proc/self/fd/{file.fileno()}"
    # Whole chunks are written, which need no cache; HDF5 has one a variable, of 1 MiB.
    with (
        h5py.File(path, "w", track_order=True, rdcc_nbytes=0) as inside,
        library.File(inside, "w") as root,
    ):
        _NetcdfFile(root, inside, schema).write(tables)


class _NetcdfFile:
    """The groups of a file that is being written."""

    def __init__(self, root: Any, inside: Any, schema: Any) -> None:
        self._root = root
        self._inside = inside
        self._schema = schema
        self._units = units_of(schema)
        self._groups: dict[str, _Group] = {}
        self._names: dict[str, str] = {}
        self._about = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))

    def write(self, tables: Iterable[Any]) -> None:
        root = self._root
        root.attrs["Conventions"] = _characters("CF-1.8")
        root.attrs["source"] = _characters("Penstock")
        for key, value in (self._schema.metadata or {}).items():
            if key == METADATA_KEY or key.startswith(b"penstock"):
                root.attrs[_plain(key.decode())] = _characters(value.decode())
        for table in tables:
            for start in range(0, table.num_rows, _SLICE_ROWS):
                self._write_rows(table.slice(start, _SLICE_ROWS))
                if sum(group.waiting_bytes for group in self._groups.values()) > _MOST_WAITING:
                    self._write_all()
        self._write_all()

    def _write_all(self) -> None:
        for group in self._groups.values():
            group.write_all()

    def _write_rows(self, rows: Any) -> None:
        pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
        if "device" not in rows.schema.names:  # a wide table
            self._group("", None).append(rows)
            return
        if "event" in rows.schema.names:
            is_event = compute.is_valid(rows["event"])
            events = rows.filter(is_event)
            if events.num_rows:
                self._group(_EVENTS, None).append(events)
                rows = rows.filter(compute.invert(is_event))
        devices = rows["device"].cast(pa.string())
        for device in compute.unique(devices).to_pylist():
            of_device = rows.filter(compute.equal(devices, device)).drop_columns(["device"])
            self._group(_plain(device), device).append(of_device)

    def _group(self, name: str, device: str | None) -> _Group:
        found = self._groups.get(name)
        if found is None:
            place = self._root if not name else self._root.create_group(name)
            found = self._groups[name] = _Group(place, self._inside, self._units, device)
            self._names[name] = device or ""
            if device is not None:
                place.attrs["device"] = _characters(device)
                facts = self._about.get("devices", {})
                if isinstance(facts, Mapping) and isinstance(facts.get(device), Mapping):
                    _describe(place, facts[device])
        elif self._names[name] != (device or ""):
            raise RecordError(
                f"the devices {self._names[name]!r} and {device!r} would both be the group "
                f"{name!r}: export them one by one, with --device"
            )
        return found


class _Group:
    """The variables of one device.

    Attributes:
        waiting_bytes: of rows that wait for others, until they fill a chunk of each variable. A
            chunk that is written twice is compressed twice.
    """

    def __init__(
        self, place: Any, inside: Any, units: Mapping[str, Any], device: str | None
    ) -> None:
        self.waiting_bytes = 0
        self._waiting: list[Any] = []
        self._waiting_rows = 0
        self._place = place
        self._inside = inside
        self._units = units
        self._device = device
        self._rows = 0
        self._widths: dict[str, int] = {}
        self._variables: dict[str, Any] = {}
        # The names in the file of columns and dimensions.
        self._names: dict[tuple[str, str], str] = {}
        self._taken = {"time", "t_ns", "row"}
        place.dimensions["row"] = None

    def append(self, rows: Any) -> None:
        """Let rows wait, and write what fills chunks."""
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self.waiting_bytes += rows.nbytes
        if self._waiting_rows >= _CHUNK_ROWS:
            table = pyarrow_module().concat_tables(self._waiting)
            # Others may have been written before they filled one.
            whole = (self._rows + self._waiting_rows) // _CHUNK_ROWS * _CHUNK_ROWS - self._rows
            self._write(table.slice(0, whole))
            rest = table.slice(whole).combine_chunks()
            self._waiting, self._waiting_rows = [rest], rest.num_rows
            self.waiting_bytes = rest.nbytes

    def write_all(self) -> None:
        """Write also what does not fill a chunk."""
        if self._waiting_rows:
            self._write(pyarrow_module().concat_tables(self._waiting))
        self._waiting, self._waiting_rows, self.waiting_bytes = [], 0, 0

    def _write(self, rows: Any) -> None:
        pa, numpy = pyarrow_module(), importlib.import_module("numpy")
        begin, end = self._rows, self._rows + rows.num_rows
        self._place.resize_dimension("row", end)
        self._rows = end
        for name in rows.schema.names:
            column = rows[name].combine_chunks()
            kind = column.type
            if pa.types.is_timestamp(kind):
                stamps = column.cast(pa.timestamp("ns", "UTC")).cast(pa.int64())
                exact = stamps.fill_null(_NO_INTEGER).to_numpy(zero_copy_only=False)
                coarse = numpy.where(exact == _NO_INTEGER, _NO_INTEGER, exact // 1000)
                time = "time" if name == "t_utc" else self._name(name)
                self._variable(time, name, "i8", self._about_time(name))[begin:end] = coarse
                if name == "t_utc":
                    about = {"long_name": _characters("nanoseconds since 1970-01-01T00:00:00Z")}
                    self._variable("t_ns", name, "i8", about)[begin:end] = exact
            elif pa.types.is_boolean(kind):
                values = column.cast(pa.int8()).fill_null(_NO_TRUTH)
                variable = self._variable(self._name(name), name, "i1", _about_truth(numpy))
                variable[begin:end] = values.to_numpy(zero_copy_only=False)
            elif pa.types.is_integer(kind):
                values = column.cast(pa.int64()).fill_null(_NO_INTEGER)
                about = {"_FillValue": numpy.int64(_NO_INTEGER)}
                variable = self._variable(self._name(name), name, "i8", about)
                variable[begin:end] = values.to_numpy(zero_copy_only=False)
            elif pa.types.is_floating(kind):
                about = {"_FillValue": numpy.float64("nan")}
                variable = self._variable(self._name(name), name, "f8", about)
                variable[begin:end] = column.to_numpy(zero_copy_only=False)
            else:
                self._append_texts(name, column, begin, end, numpy)

    def _about_time(self, name: str) -> dict[str, Any]:
        numpy = importlib.import_module("numpy")
        about = {
            "units": _characters(_EPOCH),
            "calendar": _characters("proleptic_gregorian"),
            "_FillValue": numpy.int64(_NO_INTEGER),
        }
        if name == "t_utc":
            about["standard_name"] = _characters("time")
            about["axis"] = _characters("T")
        return about

    def _append_texts(self, name: str, column: Any, begin: int, end: int, numpy: Any) -> None:
        pa = pyarrow_module()
        # A text becomes characters once, however many rows have it.
        texts = column.cast(pa.string()).fill_null("").dictionary_encode()
        distinct = numpy.array(texts.dictionary.cast(pa.binary()).to_pylist(), dtype="S")
        width = max(1, distinct.dtype.itemsize)
        dimension = self._name(name, "_length")
        before = self._widths.get(name)
        if before is None:
            self._place.dimensions[dimension] = None
        if before is None or width > before:
            self._place.resize_dimension(dimension, width)
            self._widths[name] = width
        full = self._widths[name]
        letters = distinct.astype(f"S{full}").view("S1").reshape(len(distinct), full)
        letters = letters[texts.indices.to_numpy(zero_copy_only=False)]
        variable = self._variable(self._name(name), name, "S1", {}, dimension)
        variable[begin:end, :full] = letters

    def _name(self, column: str, suffix: str = "") -> str:
        """The name in the file of a column, or of its dimension: two columns never have one."""
        known = self._names.get((column, suffix))
        if known is None:
            known = plain = _plain(column + suffix)
            number = 1
            while known in self._taken:
                number += 1
                known = f"{plain}_{number}"
            self._taken.add(known)
            self._names[column, suffix] = known
        return known

    def _variable(
        self, name: str, column: str, kind: str, about: Mapping[str, Any], *more: str
    ) -> Any:
        """The variable of a column, made at its first rows."""
        known = self._variables.get(name)
        if known is not None:
            return known
        about = dict(about)
        fill = about.pop("_FillValue", None)
        variable = self._place.create_variable(
            name,
            ("row", *more),
            kind,
            fillvalue=fill,
            chunks=(_CHUNK_ROWS, *(32 for _ in more)),
            compression="gzip",
            compression_opts=1,
            shuffle=True,
        )
        # h5netcdf opens and closes it at each access, and HDF5 then ends the chunk that is open.
        self._variables[name] = opened = self._inside[variable.name]
        for key, value in about.items():
            variable.attrs[key] = value
        if name not in ("time", "t_ns"):
            variable.attrs["coordinates"] = _characters("time")
        long_name = _LONG_NAMES.get(column) or ("" if column == name else column)
        if long_name and "long_name" not in variable.attrs:
            variable.attrs["long_name"] = _characters(long_name)
        unit = unit_for(self._units, column, self._device or "")
        if column in _SECONDS:
            variable.attrs["units"] = _characters("s")
        elif unit is not None:
            variable.attrs["penstock_units"] = _characters(unit)
            if (known := udunits_of(unit)) is not None:
                variable.attrs["units"] = _characters(known)
        return opened


def _about_truth(numpy: Any) -> dict[str, Any]:
    return {
        "_FillValue": numpy.int8(_NO_TRUTH),
        "flag_values": numpy.array([0, 1], dtype="i1"),
        "flag_meanings": _characters("false true"),
    }


def _describe(place: Any, facts: Mapping[str, Any]) -> None:
    """What is known of a device, such as its serial number and its calibration, as attributes."""
    for name, value in facts.items():
        if value is None or name in ("device", "_FillValue"):
            continue
        wide = isinstance(value, int) and not -(2**63) <= value < 2**63
        plain = isinstance(value, int | float) and not isinstance(value, bool) and not wide
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        place.attrs[_plain(name)] = value if plain else _characters(text)


def _characters(text: str) -> Any:
    """A text as an attribute of characters, which every reader knows; not a string of HDF5."""
    return importlib.import_module("numpy").bytes_(text.encode() or b" ")


def _plain(name: str) -> str:
    """A name of letters, digits and underscores (CF 2.3)."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    return plain if plain[0].isalpha() else f"d_{plain.lstrip('_')}"


# Units of instruments in the words of UDUNITS, which CF conventions ask for.

_UNITS: Mapping[str, str] = MappingProxyType(
    {
        "°C": "degC",
        "`C": "degC",
        "C": "degC",
        "degC": "degC",
        "°F": "degF",
        "`F": "degF",
        "F": "degF",
        "K": "K",
        "`K": "K",
        "PSI": "psi",
        "PSIA": "psi",
        "PSIG": "psi",
        "PSID": "psi",
        "bar": "bar",
        "barA": "bar",
        "barG": "bar",
        "mbar": "mbar",
        "Pa": "Pa",
        "hPa": "hPa",
        "kPa": "kPa",
        "MPa": "MPa",
        "atm": "atm",
        "torr": "torr",
        # Volumes at standard or normal conditions: the conditions are in the instrument's word.
        "SCCM": "cm3 min-1",
        "SCCS": "cm3 s-1",
        "SLPM": "L min-1",
        "SLM": "L min-1",
        "SLPS": "L s-1",
        "NCCM": "cm3 min-1",
        "NLPM": "L min-1",
        "CCM": "cm3 min-1",
        "CCS": "cm3 s-1",
        "LPM": "L min-1",
        "LPS": "L s-1",
        "SCF": "ft3",
        "SCFM": "ft3 min-1",
        "CFM": "ft3 min-1",
        "mL": "mL",
        "L": "L",
        "SL": "L",
        "SmL": "mL",
        "g": "g",
        "kg": "kg",
        "g/min": "g min-1",
        "%": "percent",
        "V": "V",
        "mV": "mV",
        "A": "A",
        "mA": "mA",
        "W": "W",
        "Hz": "Hz",
        "s": "s",
        "ms": "ms",
        "min": "min",
        "h": "h",
        "m": "m",
        "mm": "mm",
    }
)


def udunits_of(unit: str) -> str | None:
    """The unit of UDUNITS with the same dimension and size; None where none is known."""
    return _UNITS.get(unit)
