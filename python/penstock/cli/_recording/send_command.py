"""``penstock send``: the rows that a recording has left in a spool, to their server."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from pathlib import Path

from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._interrupts import Interrupts
from penstock.cli._recording.network_sinks import sink_of
from penstock.loop import new_event_loop
from penstock.record import NetworkSink, RecordError

__all__ = ["run_send"]

_LOOKED_AT_EVERY_S = 0.2


def run_send(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Send what is in ``options.spool`` to ``options.url``; return the exit code."""
    spool = Path(options.spool)
    if not (spool / "to").is_file():
        raise CommandError(
            f"{spool} is no spool of a sink; name a folder such as run-1/samples.influx-spool",
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
            async with asyncio.timeout(_LOOKED_AT_EVERY_S):
                await stop.wait()
    await sink.close()
