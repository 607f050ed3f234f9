"""``penstock dash``: a recording or live instruments as a page in the browser."""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

import anyio

from penstock.cli._dashboard.page import (
    board_of,
    check_dash_parts,
    dashboard_of,
    opened_listener,
    served,
)
from penstock.cli._dashboard.plan import DashPlan, dash_plan, with_layout
from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._interrupts import Interrupts
from penstock.cli._recording.config import load_config
from penstock.cli._recording.plan_run import check_native_loop
from penstock.cli._recording.watch_command import watch_instruments
from penstock.cli._stored.reading import name_of
from penstock.record.postgres_server import is_postgres


def run_dash(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Serve the page of ``options.target`` until Ctrl-C, which is the usual end: exit code 0."""
    plan = dash_plan(options)
    assert plan is not None
    check_native_loop()
    check_dash_parts()
    if options.target.endswith(".toml"):
        if options.layout is not None:
            raise CommandError(
                "--layout is only for recordings, and a run.toml has its own layout; leave it out",
                ExitCode.USAGE,
            )
        return watch_instruments(options.target, interrupts, dash=plan, metrics=options.metrics)
    if options.metrics is not None:
        raise CommandError(
            "--metrics is only for instruments, and this is a recording; leave it out, or name a "
            "run.toml",
            ExitCode.USAGE,
        )
    if plan.control and is_postgres(options.target):
        raise CommandError(
            "--control reaches a recorder on this machine through the folder of its recording, "
            "but "
            f"{name_of(options.target, options.table)} is on a server; leave it out",
            ExitCode.USAGE,
        )
    if options.layout is not None:
        plan = with_layout(plan, load_config(options.layout))
        assert plan is not None
    from penstock import run

    with interrupts.deferred():
        run(_serve_recording(options.target, options.table, plan, interrupts))
    if interrupts.signum != signal.SIGINT:
        interrupts.raise_if_received()
    return ExitCode.OK


async def _serve_recording(target: str, table: str, plan: DashPlan, interrupts: Interrupts) -> None:
    from penstock.dash import follow
    from penstock.record.errors import RecordError, SinkDependencyError
    from penstock.record.view import open_recording

    async def say(line: str) -> None:
        print(line, flush=True)

    name = name_of(target, table)
    try:
        recording = open_recording(target, table=table, strict=False)
        board = board_of(plan, name, live=False)
        controls = None
        if plan.control:
            from penstock.cli._dash.recorder_controls import RecorderControls

            controls = RecorderControls(Path(target))
            # The row of the recorder comes back by the files.
            board.record_event = lambda kind, text, device: None
        with anyio.CancelScope() as scope, interrupts.stopping(scope.cancel):
            listener = opened_listener(plan)
            async with served(plan, dashboard_of(plan, board, controls), listener, say):
                await follow(board, recording)
    except SinkDependencyError as error:
        raise CommandError(one_line(error), ExitCode.MISSING_PART) from error
    except RecordError as error:
        raise CommandError(one_line(error), ExitCode.OUTPUT) from error
    except (ValueError, KeyError) as error:
        # pyarrow's own errors are ValueErrors.
        raise CommandError(
            f"{name} cannot be read: {one_line(error)}; penstock verify says what can be read",
            ExitCode.OUTPUT,
        ) from error
