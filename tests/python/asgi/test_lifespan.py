"""Lifespans that do not end as they should."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from penstock import asgi

from .support import serving

Run = Callable[..., Any]


def test_an_application_that_does_not_return_after_its_shutdown(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.asgi._lifespan._AFTER_SHUTDOWN", 0.01)
    ends = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            while True:
                kind = (await receive())["type"]
                await send({"type": f"{kind}.complete"})
        finally:
            ends.append(kind)

    async def main() -> None:
        async with asyncio.timeout(20):
            async with serving(app, lifespan="on"):
                assert not ends
        await asyncio.sleep(0)

    run(main())
    assert ends == ["lifespan.shutdown"]


def test_an_exception_after_the_shutdown_is_logged(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for phase in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{phase}.complete"})
        raise ValueError("too late")

    async def main() -> None:
        async with serving(app, lifespan="on"):
            pass

    with caplog.at_level(logging.ERROR):
        run(main())
    assert ["too late" in str(record.exc_info) for record in caplog.records] == [True]


def test_a_failure_is_told_once(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    """Starlette raises what it has told."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})
        raise ValueError("no database")

    async def main() -> None:
        with pytest.raises(asgi.LifespanFailed, match="no database"):
            await asgi.serve(app, port=0)

    with caplog.at_level(logging.ERROR):
        run(main())
    assert [record.getMessage() for record in caplog.records] == ["no database"]


@pytest.mark.parametrize("refuses", [False, True])
def test_an_application_that_has_not_started_is_cancelled(run: Run, *, refuses: bool) -> None:
    async def main() -> None:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await receive()
            if refuses:
                await send({"type": "lifespan.startup.failed", "message": "no database"})
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async def start() -> None:
            await asgi.serve(app, port=0)

        starting = asyncio.create_task(start())
        await begun.wait()
        if not refuses:
            starting.cancel()
        with pytest.raises(asgi.LifespanFailed if refuses else asyncio.CancelledError):
            await starting
        async with asyncio.timeout(20):
            await ended.wait()

    run(main())


@pytest.mark.parametrize("mode", ["auto", "on"])
def test_an_application_that_raises_cancelled_error_by_itself(run: Run, mode: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        async with serving(app, lifespan=mode):
            pass

    if mode == "auto":
        run(main())
    else:
        with pytest.raises(asgi.LifespanFailed, match="gave no reason"):
            run(main())
