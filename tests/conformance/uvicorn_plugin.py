"""A pytest plugin for uvicorn's own tests of its protocols, which are Penstock's here.

The tests get their protocols by two fixtures, from import strings. Two of those lead to
``penstock.asgi``; the tests with the others are left out. ``PENSTOCK_CONFORMANCE_REPORT`` names the
report's file, of JSON lines.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import uvicorn.importer

from penstock import asgi

REPLACED = {
    "uvicorn.protocols.http.h11_impl:H11Protocol": f"{__name__}:Protocol",
    "uvicorn.protocols.websockets.websockets_sansio_impl:WebSocketsSansIOProtocol": (
        "penstock.asgi:WebSocketProtocol"
    ),
}
FIXTURES = ("http_protocol_cls", "ws_protocol_cls")
_import_from_string = uvicorn.importer.import_from_string


def _import_replaced(name: Any) -> Any:
    return _import_from_string(REPLACED.get(name, name))


# Now, since their conftest takes the function when it is imported.
uvicorn.importer.import_from_string = _import_replaced
if importlib.util.find_spec("httpx2") is None:
    sys.modules["httpx2"] = importlib.import_module("httpx")


class Protocol(asgi.HttpProtocol):
    """The protocol with what their tests look at, also after its connection was lost."""

    loop: Any
    _given: Any = None

    def __init__(self, *, _loop: Any = None, **arguments: Any) -> None:
        super().__init__(_loop=_loop, **arguments)
        self.loop = _loop

    def connection_made(self, transport: Any) -> None:
        self._given = transport
        super().connection_made(transport)

    @property
    def transport(self) -> Any:  # type: ignore[override]
        return self._given


def _call_soon(loop: Any, callback: Any, *arguments: Any) -> Any:
    return asyncio.get_running_loop().call_soon(callback, *arguments)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Their loop without I/O lacks this one function that the protocol calls.
    importlib.import_module("tests.protocols.test_http").MockLoop.call_soon = _call_soon
    kept, others = [], []
    for item in items:
        parameters = getattr(item, "callspec", None)
        values = parameters.params if parameters is not None else {}
        chosen = [values[name] for name in FIXTURES if name in values]
        (kept if chosen and all(each in REPLACED for each in chosen) else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = kept


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        with Path(os.environ["PENSTOCK_CONFORMANCE_REPORT"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps([report.nodeid, report.outcome, report.longreprtext]) + "\n")
