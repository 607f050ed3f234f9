"""The servers that a run is recorded into: opened, watched, and opened again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._recording.plan import RunPlan, SinkPlan
from penstock.record import (
    InfluxSink,
    MqttSink,
    NatsSink,
    NetworkSink,
    RecordError,
    Recording,
    Sink,
    SparkplugSink,
)

__all__ = ["NetworkSinks", "sink_of"]

_LOOKED_AT_EVERY_S = 0.5
_KINDS: dict[str, tuple[str, Callable[..., NetworkSink]]] = {
    "influx": ("influx", InfluxSink),
    "influxs": ("influx", InfluxSink),
    "mqtt": ("mqtt", MqttSink),
    "mqtts": ("mqtt", MqttSink),
    "sparkplug": ("sparkplug", SparkplugSink),
    "sparkplugs": ("sparkplug", SparkplugSink),
    "nats": ("nats", NatsSink),
    "natss": ("nats", NatsSink),
}


class NetworkSinks:
    """The sinks of ``plan.sinks``.

    Attributes:
        reopening: how each one is made again after a failure, such as a full disk.
    """

    def __init__(self, plan: RunPlan, tell: Callable[[str], Awaitable[None]]) -> None:
        self.reopening: dict[Sink, Callable[[], Sink]] = {}
        self._plan = plan
        self._tell = tell
        self._sinks: list[NetworkSink] = []

    async def open_all(self, stack: AsyncExitStack) -> list[Sink]:
        """Open them; ``stack`` closes those that no recording has closed.

        Raises:
            CommandError: a server refuses for good, or a spool cannot be opened.
        """
        for place, sink_plan in enumerate(self._plan.sinks):
            make = partial(self._made, place, sink_plan)
            try:
                sink = await stack.enter_async_context(make())
            except RecordError as error:
                raise CommandError(one_line(error), ExitCode.OUTPUT) from error
            except ValueError as error:
                raise CommandError(one_line(error), ExitCode.CONFIG) from error
            self.reopening[sink] = make
            if sink.trouble is not None:
                await self._tell(f"penstock: {_waiting(sink)}")
        return list(self._sinks)

    @property
    def sinks(self) -> tuple[NetworkSink, ...]:
        """Those that are written at present. Any thread may read it."""
        return tuple(self._sinks)

    async def check(self) -> None:
        """Ask each server whether it would take rows; make nothing.

        Raises:
            CommandError: one would not, or does not answer.
        """
        for place, sink_plan in enumerate(self._plan.sinks):
            try:
                await self._made(place, sink_plan).check()
            except RecordError as error:
                raise CommandError(one_line(error), ExitCode.OUTPUT) from error
            except ValueError as error:
                raise CommandError(one_line(error), ExitCode.CONFIG) from error

    async def watch(self, recording: Recording) -> None:
        """Tell when a server is away, back, or begins to refuse rows, until it is cancelled."""
        told = {place: sink.trouble for place, sink in enumerate(self._sinks)}
        refusing: set[NetworkSink] = set()
        while True:
            await anyio.sleep(_LOOKED_AT_EVERY_S)
            for place, sink in enumerate(self._sinks):
                if sink.rows_refused and sink not in refusing:
                    refusing.add(sink)
                    text = f"{sink.server} has refused {sink.rows_refused} rows; {sink.refusals}"
                    recording.note(text, kind="sink_refused")
                    await self._tell(f"penstock: {text}")
                trouble = sink.trouble
                if (trouble is None) == (told.get(place) is None):
                    continue
                told[place] = trouble
                text = f"{sink.server} takes rows again" if trouble is None else _waiting(sink)
                recording.note(text, kind="sink_back" if trouble is None else "sink_away")
                await self._tell(f"penstock: {text}")

    def _made(self, place: int, plan: SinkPlan) -> NetworkSink:
        options = dict(plan.options)
        name, _ = _KINDS[plan.url.partition("://")[0].lower()]
        number = f"-{place + 1}" if place else ""
        spool = Path(options.pop("spool", self._plan.out / f"samples.{name}-spool{number}"))
        sink = sink_of(plan.url, spool, **options)
        self._sinks[place : place + 1] = [sink]
        return sink


def sink_of(url: str, spool: Path, **options: Any) -> NetworkSink:
    """The sink of a URL, with its spool.

    Raises:
        ValueError: no sink has such a URL, or it is malformed.
    """
    found = _KINDS.get(url.partition("://")[0].lower()) if "://" in url else None
    if found is None:
        raise ValueError(f"the address begins with none of {', '.join(f'{k}://' for k in _KINDS)}")
    return found[1](url, spool=spool, **options)


def _waiting(sink: NetworkSink) -> str:
    return f"{sink.server} takes no rows ({sink.trouble}): they wait in {sink.spool}"
