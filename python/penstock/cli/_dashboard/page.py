"""The dashboard of a command: its socket, its words on the terminal, its board."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from penstock.cli._dashboard.plan import DashPlan
from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._loopback import is_loopback

if TYPE_CHECKING:
    from penstock.alicat import AlicatManager
    from penstock.dash import Board, BoardSink, Controls, Dashboard
    from penstock.record.shown_quantity import Quantity

Say = Callable[[str], Awaitable[None]]


def check_dash_parts() -> None:
    """Refuse before anything is opened if a package of the dashboard is missing.

    Raises:
        CommandError: (exit code MISSING_PART).
    """
    found = {
        "numpy": find_spec("numpy"),
        "pyarrow": find_spec("pyarrow"),
        "starlette": find_spec("starlette"),
        "uvicorn": find_spec("uvicorn"),
        "websockets": find_spec("websockets"),
    }
    for name, spec in found.items():
        if spec is None:
            raise CommandError(
                f"the dashboard needs {name}; run pip install 'penstock[dash]'",
                ExitCode.MISSING_PART,
            )


def opened_listener(plan: DashPlan) -> socket.socket:
    """The socket of the page.

    Raises:
        CommandError: the address is taken, or not of this machine.
    """
    from penstock.dash import listening_socket

    try:
        return listening_socket(plan.host, plan.port)
    except OSError as error:
        reason = error.strerror or one_line(error)
        raise CommandError(
            f"the dashboard cannot be served on {plan.host} port {plan.port}: {reason}; choose "
            "another port (0 picks a free one) or address",
            ExitCode.OUTPUT,
        ) from error


def board_of(plan: DashPlan, title: str, *, live: bool) -> Board:
    """An empty board with the alarms of ``plan``."""
    from penstock.dash import Board, ChartPlan, Limits

    limits: dict[str, list[Limits]] = {}
    for limit in plan.limits:
        for name, field in limit.readings():
            one = Limits(limit.low, limit.high, field, limit.hysteresis)
            limits.setdefault(name, []).append(one)
    for name, recorded in plan.recorded.items():
        limits.setdefault(name, []).extend(
            Limits(each.low, each.high, each.field, each.hysteresis, judged=False)
            for each in recorded
        )
    charts = [ChartPlan(each.title, each.left, each.right, each.log) for each in plan.charts]
    return Board(title, live=live, silence=plan.silence, limits=limits, charts=charts)


@asynccontextmanager
async def served(
    plan: DashPlan, dashboard: Dashboard, listener: socket.socket, say: Say
) -> AsyncGenerator[None, None]:
    """Serve the page inside the block; ``say`` gets its address, warnings and the token."""
    from penstock.dash import serving

    async def failed(error: Exception) -> None:
        await say(f"penstock: the dashboard has ended: {one_line(error)}; the run continues")

    async with serving(dashboard, listener, on_failure=failed):
        for line in _announcement(plan, listener, dashboard):
            await say(line)
        yield


@asynccontextmanager
async def beside_recording(
    plan: DashPlan,
    title: str,
    listener: socket.socket,
    manager: AlicatManager,
    quantities: Mapping[str, Quantity | None],
    say: Say,
) -> AsyncGenerator[BoardSink, None]:
    """Serve the page of the instruments of ``manager``; yields the sink that fills it."""
    from penstock.dash import AlicatControls, BoardSink

    board = board_of(plan, title, live=True)
    board.expect(quantities)
    controls = AlicatControls(manager) if plan.control else None
    async with served(plan, dashboard_of(plan, board, controls), listener, say):
        sink = BoardSink(board)
        await sink.open()
        yield sink


def dashboard_of(plan: DashPlan, board: Board, controls: Controls | None = None) -> Dashboard:
    """The application, open for the names of this machine."""
    from penstock.dash import Dashboard

    names = (plan.host, socket.gethostname(), *plan.names)
    return Dashboard(board, controls, names=names, password=plan.password)


def _announcement(plan: DashPlan, listener: socket.socket, dashboard: Dashboard) -> list[str]:
    address, port = listener.getsockname()[:2]
    host = socket.gethostname() if address in ("0.0.0.0", "::") else plan.host
    lines = [f"dashboard: http://{f'[{host}]' if ':' in host else host}:{port}/"]
    if not is_loopback(address):
        changes = ", and with the token change them" if dashboard.token is not None else ""
        who = "everyone who knows the password and" if plan.password is not None else "everyone who"
        lines.append(
            f"warning: {who} can reach {address} port {port} can see these "
            f"instruments{changes}, and the connection is not encrypted; the default address and "
            "a tunnel (ssh -L) are safer"
        )
    if dashboard.token is not None:
        lines.append(f"control token, for the page's Control button: {dashboard.token.text}")
    return lines
