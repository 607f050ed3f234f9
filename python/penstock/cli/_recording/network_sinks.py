"""The servers that a run is recorded into: opened, watched, opened again, and sent what is left."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._interrupts import Interrupts
from penstock.cli._recording.plan import RunPlan, SinkPlan
from penstock.loop import new_event_loop
from penstock.record import (
    InfluxSink,
    MqttSink,
    NatsSink,
    NetworkSink,
    PostgresSink,
    RecordError,
    Recording,
    Sink,
    SinkExistsError,
    SparkplugSink,
)
from penstock.record.addresses import scheme_of
from penstock.record.sink_choice import check_url

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
    # As with the other servers, rows are added to those that are there.
    "postgresql": ("postgres", partial(PostgresSink, append=True)),
    "postgres": ("postgres", partial(PostgresSink, append=True)),
}


class NetworkSinks:
    """The sinks of ``plan.sinks``, and that of ``plan.postgres_dsn``.

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
        for make in self._makers():
            try:
                sink = await stack.enter_async_context(make())
            except SinkExistsError as error:
                raise CommandError(_explain_existing(error), ExitCode.OUTPUT) from error
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
        for make in self._makers():
            try:
                await make().check()
            except SinkExistsError as error:
                raise CommandError(_explain_existing(error), ExitCode.OUTPUT) from error
            except RecordError as error:
                raise CommandError(one_line(error), ExitCode.OUTPUT) from error
            except ValueError as error:
                raise CommandError(one_line(error), ExitCode.CONFIG) from error

    async def watch(self, recording: Recording) -> None:
        """Tell when a server is away, back, or refuses all or some rows, until it is cancelled.

        A server that comes back and refuses is told too: nobody would correct what is refused
        where the last word was that it is away. Other changes of the reason are not.
        """
        told = {place: _state(sink) for place, sink in enumerate(self._sinks)}
        refusing: set[NetworkSink] = set()
        while True:
            await anyio.sleep(_LOOKED_AT_EVERY_S)
            for place, sink in enumerate(self._sinks):
                if sink.rows_refused and sink not in refusing:
                    refusing.add(sink)
                    text = f"{sink.server} has refused {sink.rows_refused} rows; {sink.refusals}"
                    recording.note(text, kind="sink_refused")
                    await self._tell(f"penstock: {text}")
                state = _state(sink)
                if state == told.get(place, ""):
                    continue
                told[place] = state
                text = _waiting(sink) if state else f"{sink.server} accepts rows again"
                recording.note(text, kind="sink_away" if state else "sink_back")
                await self._tell(f"penstock: {text}")

    def _makers(self) -> list[Callable[[], NetworkSink]]:
        makers: list[Callable[[], NetworkSink]] = [
            partial(self._made, place, plan) for place, plan in enumerate(self._plan.sinks)
        ]
        if self._plan.postgres_dsn is not None:
            makers.append(partial(self._made_table, len(makers), self._plan.postgres_dsn))
        return makers

    def _made_table(self, place: int, dsn: str) -> NetworkSink:
        again = len(self._sinks) > place  # this run has begun the table
        sink = PostgresSink(
            dsn,
            overwrite=self._plan.overwrite and not again,
            append=self._plan.resume or again,
            spool=self._plan.out / "samples.postgres-spool",
        )
        self._sinks[place : place + 1] = [sink]
        return sink

    def _made(self, place: int, plan: SinkPlan) -> NetworkSink:
        options: dict[str, Any] = dict(plan.options)
        name, _ = _KINDS[scheme_of(plan.url)]
        number = f"-{place + 1}" if place else ""
        spool = Path(options.pop("spool", self._plan.out / f"samples.{name}-spool{number}"))
        sink = sink_of(plan.url, spool, **options)
        self._sinks[place : place + 1] = [sink]
        return sink


def sink_of(url: str, spool: Path, **options: Any) -> NetworkSink:
    """The sink of a URL, with its spool.

    Raises:
        ValueError: no sink has such a URL, or it is malformed, or holds a password.
    """
    found = _KINDS.get(scheme_of(url))
    if found is None:
        raise ValueError(
            f"the address does not begin with any of {', '.join(f'{k}://' for k in _KINDS)}"
        )
    check_url(url)
    return found[1](url, spool=spool, **options)


def _explain_existing(error: SinkExistsError) -> str:
    known = one_line(error).partition(": choose")[0]
    return f"{known}; add --resume to continue it or --overwrite to replace it"


def _state(sink: NetworkSink) -> str:
    """Whether a server is away, or refuses; empty while it takes rows."""
    if sink.trouble is None:
        return ""
    return "refuses" if sink.is_refused else "away"


def _waiting(sink: NetworkSink) -> str:
    return f"{sink.server} takes no rows ({sink.trouble}): they wait in {sink.spool}"


# ``penstock send``: the rows that a recording has left in a spool, to their server.

_EMPTIED_EVERY_S = 0.2


def run_send(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Send what is in ``options.spool`` to ``options.url``; return the exit code."""
    spool = Path(options.spool)
    if not (spool / "to").is_file():
        raise CommandError(
            f"{spool} is not the spool of a sink; name a folder such as run-1/samples.influx-spool",
            ExitCode.OUTPUT,
        )
    files = {"token_file": options.token_file, "password_file": options.password_file}
    given = {name: path for name, path in {**files, "ca_file": options.ca_file}.items() if path}
    try:
        sink = sink_of(options.url, spool, **given)
    except (ValueError, TypeError) as error:
        # TypeError: a sink without such an option.
        raise CommandError(one_line(error), ExitCode.USAGE) from error

    async def main() -> None:
        stop = asyncio.Event()
        with interrupts.stopping(stop.set):
            await _send(sink, stop, options.timeout)

    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(main())
    except RecordError as error:
        raise CommandError(one_line(error), ExitCode.OUTPUT) from error
    interrupts.raise_if_received()
    print(f"sent all of {spool} to {sink.server}")
    return ExitCode.OK


async def _send(sink: NetworkSink, stop: asyncio.Event, patience: float) -> None:
    """Return when all is sent. RecordError: the server was away for ``patience`` seconds."""
    await sink.open()
    away_since: float | None = None
    while not stop.is_set() and not sink.all_sent:
        now = time.monotonic()
        away_since = None if sink.trouble is None else away_since or now
        if away_since is not None and now - away_since >= patience:
            break
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_EMPTIED_EVERY_S):
                await stop.wait()
    await sink.close()
