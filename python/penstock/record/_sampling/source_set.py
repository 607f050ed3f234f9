"""The sources of one recording: which device belongs to which source, and their facts."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from penstock import __version__
from penstock.record._source import (
    DescribedSource,
    EventSource,
    FieldSchemaLike,
    GroupedPollSource,
    PollSource,
    PushSource,
    RatedSource,
    SchemaSource,
)
from penstock.record.clock import boot_id
from penstock.record.schema import Field, unite


@dataclass(frozen=True, slots=True)
class Bus:
    """Devices of one source that are polled one after another.

    ``one_by_one`` is False for a source that knows no buses: it is asked for all of them in one
    call.
    """

    source: PollSource
    names: tuple[str, ...]
    one_by_one: bool


class SourceSet:
    """Sources whose devices are recorded together.

    Raises:
        ValueError: two devices have one name, a chosen name is unknown, or there is no device.
    """

    def __init__(self, sources: Sequence[PollSource], names: Iterable[str] | None) -> None:
        self.sources: tuple[PollSource, ...] = tuple(sources)
        self._owners: dict[str, PollSource] = {}
        for source in self.sources:
            for name in source.names:
                if name in self._owners:
                    raise ValueError(
                        f"two devices are named {name!r} (of {self._owners[name].source_id!r} and "
                        f"{source.source_id!r}): give one of them another name"
                    )
                self._owners[name] = source
        self.names: tuple[str, ...] = self._chosen(names)
        pushed = {
            name
            for source in self.sources
            if isinstance(source, PushSource)
            for name in source.pushed_names
        }
        self.polled: tuple[str, ...] = tuple(name for name in self.names if name not in pushed)
        # Found once: a check against a protocol costs as much as the recording of a row.
        self._with_schema = tuple(each for each in self.sources if isinstance(each, SchemaSource))

    def _chosen(self, names: Iterable[str] | None) -> tuple[str, ...]:
        chosen = tuple(self._owners) if names is None else tuple(dict.fromkeys(names))
        unknown = [name for name in chosen if name not in self._owners]
        if unknown:
            raise ValueError(
                f"no device named {', '.join(map(repr, unknown))}; "
                f"the source has {', '.join(map(repr, self._owners)) or 'none'}"
            )
        if not chosen:
            raise ValueError("there is no device to record: add one to the source first")
        return chosen

    @property
    def revision(self) -> int:
        """Grows whenever fields or facts of a device have changed."""
        # A recording looks at it after every poll, and nearly always has one source.
        revision = 0
        for source in self._with_schema:
            revision += source.revision
        return revision

    @property
    def pushing(self) -> tuple[PushSource, ...]:
        """The sources whose devices send readings by themselves."""
        return tuple(source for source in self.sources if isinstance(source, PushSource))

    @property
    def eventful(self) -> tuple[EventSource, ...]:
        """The sources that report events."""
        return tuple(source for source in self.sources if isinstance(source, EventSource))

    @property
    def stamps_first_byte(self) -> bool:
        """Whether a source reports when the first byte of a reply arrived."""
        return any(getattr(source, "stamps_first_byte", False) for source in self.sources)

    def rates(self, rate_hz: float, own: Mapping[str, float] | None) -> dict[str, float]:
        """The polls a second of each polled device.

        ``own`` goes before what a source tells, and that before ``rate_hz``.

        Raises:
            ValueError: ``own`` names a device that is not recorded.
        """
        rates = dict.fromkeys(self.names, rate_hz)
        for source in self.sources:
            if isinstance(source, RatedSource):
                rates |= {n: r for n, r in source.rates().items() if n in rates}
        for name, rate in (own or {}).items():
            if name not in rates:
                raise ValueError(
                    f"rates has {name!r}, which is not recorded; the devices are "
                    f"{', '.join(map(repr, self.names))}"
                )
            rates[name] = rate
        return {name: rates[name] for name in self.polled}

    def buses(self) -> list[Bus]:
        """The polled devices by bus, each device once."""
        buses: list[Bus] = []
        for source in self.sources:
            left = [name for name in self.polled if self._owners[name] is source]
            if not isinstance(source, GroupedPollSource):
                if left:
                    buses.append(Bus(source, tuple(left), one_by_one=False))
                continue
            for group in (*source.poll_groups(), *([name] for name in tuple(left))):
                members = tuple(name for name in group if name in left)
                left = [name for name in left if name not in members]
                if members:
                    buses.append(Bus(source, members, one_by_one=True))
        return buses

    def known_fields(self) -> dict[str, Sequence[FieldSchemaLike]]:
        """The fields of the devices whose source tells them."""
        known: dict[str, Sequence[FieldSchemaLike]] = {}
        for source in self._with_schema:
            known |= {n: f for n, f in source.field_schemas().items() if n in self.names}
        return {name: known[name] for name in self.names if name in known}

    def unit_ids(self) -> dict[str, str | None]:
        """The address of each device on its bus, where its source knows one."""
        return {name: self._facts(name).get("unit_id") for name in self.names}

    def columns(self, fields: Mapping[str, Sequence[FieldSchemaLike]]) -> tuple[Field, ...]:
        """The field columns of the recording: those of the devices, then the recorder's own."""
        own = [Field("late_s", "float", "s")] if self.polled else []
        if self.stamps_first_byte:
            own.append(Field("first_byte_s", "float", "s"))
        own += [Field(name, "text") for name in ("event", "message", "error_code")]
        return (*unite(fields), *own)

    def describe(
        self,
        fields: Mapping[str, Sequence[FieldSchemaLike]],
        *,
        run_id: str,
        rate_hz: float,
        rates: Mapping[str, float],
        started_at: datetime,
    ) -> str:
        """What every file of the recording says about it, as JSON text."""
        devices = {
            name: {
                "unit_id": None,
                **self._facts(name),
                "source": self._owners[name].source_id,
                "rate_hz": rates.get(name),
                "units": {f.name: f.unit for f in fields.get(name, ()) if f.unit is not None},
            }
            for name in self.names
        }
        return json.dumps(
            {
                "software": f"penstock {__version__}",
                "source": ", ".join(source.source_id for source in self.sources),
                "run_id": run_id,
                "boot_id": boot_id(),
                "started_at": started_at.isoformat(),
                "rate_hz": rate_hz,
                "devices": devices,
            },
            ensure_ascii=False,
        )

    def _facts(self, name: str) -> Mapping[str, str]:
        source = self._owners[name]
        return source.device_facts(name) if isinstance(source, DescribedSource) else {}


def new_run_id() -> str:
    """What identifies one run of a recorder."""
    return str(uuid.uuid4())
