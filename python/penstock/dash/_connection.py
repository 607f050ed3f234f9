"""One browser: what it looks at, what it has, and what it asks to change.

Nothing is queued for a browser. At each tick it gets what has changed since the last message,
thinned to the pixels that it shows, and only if it has confirmed the message before the last one. A
slow browser so gets fewer and not more messages, and costs the recorder a bounded amount of time
and memory. Rejected: a queue for each browser that drops messages, which still has to be filled for
a browser that does not read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from penstock import __version__
from penstock.dash._access import ControlToken
from penstock.dash._board import Board, ShownDevice
from penstock.dash._controls import AlarmControls, ControlError, Controls
from penstock.dash._wire import (
    BadMessageError,
    CurveName,
    View,
    answer_id,
    number_in,
    pack_points,
    parse_message,
    parse_view,
)
from penstock.record.envelopes.history import Extremes
from penstock.record.shown_quantity import Quantity

_TICK_S = 0.25
_UNCONFIRMED = 2
_CURVES_A_MESSAGE = 32
"""So many curves are packed without a pause: a millisecond, in which no poll begins."""
_UNTIL_THE_END = 2**63 - 1
_MOST_ANSWERS = 16
"""Answers that may be on their way to one browser; it is not read from meanwhile."""
_MOST_CHANGES = 4
"""Changes that one browser may have under way."""
_LONGEST_GAS = 64
_POLICY_VIOLATION = 1008  # RFC 6455, section 7.4.1
_LONGEST_REASON = 123  # bytes; RFC 6455, section 5.5


class Connection:
    """Serves one accepted WebSocket until it closes."""

    def __init__(
        self,
        socket: WebSocket,
        board: Board,
        *,
        controls: Controls | None,
        token: ControlToken | None,
        granted: bool,
    ) -> None:
        self._socket = socket
        self._board = board
        self._controls = controls
        self._token = token
        self._granted = granted
        self._greeted = False
        self._view: View | None = None
        self._sent_until: dict[CurveName, int] = {}
        self._sent_rows: dict[CurveName, int] = {}
        self._events_sent = 0
        self._revision = -1
        self._sent = 0
        self._confirmed = 0
        self._changes = 0
        self._answers = 0
        self._answered = anyio.Event()
        self._wake = anyio.Event()
        self._leaving = anyio.Event()
        self._left = anyio.Event()

    async def run(self) -> None:
        """Serve until the browser leaves. Cancellation closes nothing; the server does."""
        try:
            async with anyio.create_task_group() as tasks:
                try:
                    tasks.start_soon(self._send_all)
                    await self._receive_all(tasks)
                finally:
                    tasks.cancel_scope.cancel()
        except* WebSocketDisconnect:
            pass
        finally:
            self._left.set()

    async def farewell(self) -> None:
        """Send the last state, and nothing after it; returns when it is sent."""
        self._leaving.set()
        self._wake.set()
        await self._left.wait()

    # -- what comes ---------------------------------------------------------------------------

    async def _receive_all(self, tasks: TaskGroup) -> None:
        try:
            while True:
                while self._answers >= _MOST_ANSWERS:
                    self._answered = anyio.Event()
                    await self._answered.wait()
                self._take(parse_message(await self._receive_text()), tasks)
        except WebSocketDisconnect:
            return
        except BadMessageError as error:
            await self._socket.close(_POLICY_VIOLATION, _as_reason(str(error)))

    async def _receive_text(self) -> str:
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000))
        text = message.get("text")
        if not isinstance(text, str):
            raise BadMessageError("the message is binary; send JSON as text")
        return text

    def _take(self, message: dict[str, Any], tasks: TaskGroup) -> None:
        kind = message["type"]
        if kind == "hello":
            number = answer_id(message)
            token = message.get("token")
            if token is not None:
                self._granted = self._token is not None and self._token.matches(token)
            self._greeted = True
            self._revision = -1
            if number is not None:
                self._start_answer(tasks, self._answer_token, number)
        elif kind == "view":
            self._view = parse_view(message)
            self._sent_until.clear()
            self._sent_rows.clear()
        elif kind == "ack":
            self._confirmed = max(
                self._confirmed, min(self._sent, int(number_in(message, "seq", 0, 2**53)))
            )
        elif kind in ("setpoint", "gas", "gases", "acknowledge"):
            self._start_answer(tasks, self._change, kind, message, answer_id(message))
        else:
            raise BadMessageError(f"the type {kind[:20]!r} is not known")
        self._wake.set()

    def _start_answer(
        self, tasks: TaskGroup, answer: Callable[..., Awaitable[None]], *arguments: Any
    ) -> None:
        async def run() -> None:
            try:
                await answer(*arguments)
            finally:
                self._answers -= 1
                self._answered.set()

        self._answers += 1
        tasks.start_soon(run)

    async def _answer_token(self, number: int | str) -> None:
        text = "" if self._granted else "this is not the token of this run"
        await self._send_text({"type": "result", "id": number, "ok": self._granted, "text": text})

    # -- what is changed ----------------------------------------------------------------------

    async def _change(self, kind: str, message: dict[str, Any], number: int | str | None) -> None:
        answer: dict[str, Any] = {"type": "result", "id": number}
        self._changes += 1
        try:
            # Shielded: a browser that leaves must not cut a command in two on the wire.
            with anyio.CancelScope(shield=True):
                answer |= {"ok": True, **await self._carry_out(kind, message)}
        except (ControlError, BadMessageError) as error:
            answer |= {"ok": False, "text": str(error)}
        finally:
            self._changes -= 1
        await self._send_text(answer)

    async def _acknowledge(self, device: str) -> str:
        now = time.time_ns()
        texts = [alarm.text for alarm in self._board.new_alarms(device, now)]
        if not texts:
            return "there is no new alarm"
        if isinstance(self._controls, AlarmControls):
            await self._controls.acknowledge(device, texts)
        self._board.acknowledge(device, now)
        return "acknowledged"

    async def _carry_out(self, kind: str, message: Mapping[str, Any]) -> dict[str, Any]:
        controls, device = self._controls, message.get("device")
        if controls is None or self._token is None:
            raise ControlError(
                "this dashboard is read-only; start it with --control to allow changes"
            )
        if not self._granted:
            raise ControlError("changing instruments needs the token shown in the terminal")
        if self._board.ended is not None:
            raise ControlError("the recording has ended; nothing can be changed any more")
        if self._changes > _MOST_CHANGES:
            raise ControlError("too many changes are under way; wait for their answers")
        if not isinstance(device, str) or device not in self._board.devices:
            raise ControlError("there is no such device")
        if kind == "acknowledge":
            return {"text": await self._acknowledge(device)}
        if kind == "gases":
            return {"gases": list(await controls.gases(device))}
        if message.get("confirmed") is not True:
            raise ControlError("the change was not confirmed; nothing was sent")
        if kind == "setpoint":
            value = number_in(dict(message), "value", -1e9, 1e9)
            return {"text": await controls.set_setpoint(device, value)}
        gas = message.get("gas")
        if not isinstance(gas, str) or not gas:
            raise ControlError("the gas is missing")
        if not gas.isprintable() or len(gas) > _LONGEST_GAS:
            raise ControlError("this is not the name of a gas")
        return {"text": await controls.set_gas(device, gas)}

    # -- what goes ----------------------------------------------------------------------------

    async def _send_all(self) -> None:
        while not self._leaving.is_set():
            if self._greeted and self._sent - self._confirmed < _UNCONFIRMED:
                await self._send_news()
            if self._leaving.is_set():
                break
            self._wake = anyio.Event()
            with anyio.move_on_after(_TICK_S):
                await self._wake.wait()
                # A browser that was waited for, or has another view, gets its points at once.
                if self._view is not None and self._sent_until:
                    await self._leaving.wait()
        # One more than a browser may leave unconfirmed: without it, the end looks like a fault.
        if self._greeted:
            await self._send_news()
        self._left.set()

    async def _send_news(self) -> None:
        board = self._board
        if board.revision != self._revision:
            self._revision = board.revision
            await self._send_text(self._described())
        now = time.time_ns()
        await self._send_points(now)
        events = board.events_since(self._events_sent)
        self._events_sent = board.events_seen
        self._sent += 1
        span = board.span
        await self._send_text(
            {
                "type": "state",
                "seq": self._sent,
                "now": now / 1e9,
                "first": span[0] / 1e9 if span is not None else None,
                "last": span[1] / 1e9 if span is not None else None,
                "live": board.live and board.ended is None,
                "ended": board.ended,
                "devices": {
                    name: self._state_of(device, now) for name, device in board.devices.items()
                },
                "events": [[e.t / 1e9, e.device, e.kind, e.message] for e in events],
            }
        )

    async def _send_points(self, now: int) -> None:
        view = self._view
        if view is None:
            return
        found: list[tuple[CurveName, int, Extremes]] = []
        for name in view.curves:
            device = self._board.devices.get(name[0])
            if device is None:
                continue
            news = self._news_of(device, name, view, now)
            if news is not None:
                found.append(news)
            if len(found) == _CURVES_A_MESSAGE:
                await self._socket.send_bytes(pack_points(view.number, found))
                found = []
                await anyio.lowlevel.checkpoint()
                if self._view is not view:
                    return
        if found:
            await self._socket.send_bytes(pack_points(view.number, found))

    def _news_of(
        self, device: ShownDevice, name: CurveName, view: View, now: int
    ) -> tuple[CurveName, int, Extremes] | None:
        history = device.history
        if self._sent_rows.get(name) == history.rows:
            return None
        sent_until = self._sent_until.get(name)
        if sent_until is None:
            begin = view.begin if view.span is None else self._right_edge(now) - view.span
        else:
            begin = sent_until
        end = view.end if view.span is None else _UNTIL_THE_END
        if begin > end:
            return None
        points = history.envelope(name[1], begin, end, view.bucket)
        if sent_until is not None:
            # The one before the range is of a bin that the browser has.
            points = points.since(sent_until)
        self._sent_rows[name] = history.rows
        if len(points):
            # The last bin may get more samples; it is sent again with them.
            self._sent_until[name] = points.end
        return name, begin if sent_until is not None else 0, points.without_long_gaps()

    def _right_edge(self, now: int) -> int:
        span = self._board.span
        return now if span is None or (self._board.live and not self._board.ended) else span[1]

    def _described(self) -> dict[str, Any]:
        board, controls = self._board, self._controls
        access = "none"
        if controls is not None and self._token is not None:
            access = "granted" if self._granted else "locked"
        return {
            "type": "hello",
            "version": __version__,
            "title": board.title,
            "control": access,
            "layout": [chart.described() for chart in board.charts],
            "devices": [self._describe(device, access) for device in board.devices.values()],
        }

    def _describe(self, device: ShownDevice, access: str) -> dict[str, Any]:
        quantities, controls = device.quantities, self._controls
        shown, setpoint = quantities.shown, quantities.setpoint
        return {
            "name": device.name,
            "unit_id": device.unit_id,
            "quantities": [
                {
                    "key": quantity.key,
                    "field": quantity.field,
                    "label": Quantity(quantity.field, None, None).label,
                    "unit": quantity.unit or "",
                }
                for quantity in quantities.all
            ],
            "main": shown.key if shown is not None else None,
            "setpoint": setpoint.key if setpoint is not None else None,
            "limits": [
                {"field": limits.field, "low": limits.low, "high": limits.high}
                for limits in (state.limits for state in device.limits)
            ],
            "abilities": list(controls.abilities(device.name))
            if controls is not None and access != "none"
            else [],
        }

    def _state_of(self, device: ShownDevice, now: int) -> dict[str, Any]:
        history = device.history
        last = history.last
        failing = device.failures.failing
        return {
            "value": device.value,
            "setpoint": device.setpoint,
            "values": [quantity.value for quantity in device.quantities.all],
            "status": device.status,
            "error": device.error if failing else None,
            "t": last / 1e9 if last is not None else None,
            "samples": history.rows,
            "errors": device.errors,
            "missed": device.missed,
            "period": history.period,
            "alarms": [
                [alarm.kind, alarm.text, alarm.since / 1e9, alarm.seen]
                for alarm in self._board.alarms(device, now)
            ],
        }

    async def _send_text(self, message: Mapping[str, Any]) -> None:
        if self._socket.application_state is not WebSocketState.CONNECTED:
            # Closed for a bad message, while a change was under way.
            raise WebSocketDisconnect(_POLICY_VIOLATION)
        await self._socket.send_text(_as_json(message))


def _as_reason(text: str) -> str:
    """``text`` as the reason of a close frame, whose length is limited."""
    return text.encode("ascii", "replace")[:_LONGEST_REASON].decode("ascii")


def _as_json(message: Mapping[str, Any]) -> str:
    """JSON in ASCII: of a lone surrogate, which UTF-8 cannot have, it has the escape."""
    try:
        return json.dumps(message, allow_nan=False)
    except ValueError:
        # JSON has no infinity, and a page's parser none either.
        return json.dumps(_finite(message))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value
