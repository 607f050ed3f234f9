"""Nothing of `websockets` is missing but what docs/websocket.md lists with a reason."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import pytest
import websockets
import websockets.asyncio.client
import websockets.asyncio.server
import websockets.exceptions

from penstock import websocket
from tests.python.documentation.page_steps import DOCS


def listed() -> dict[str, str]:
    page = (DOCS / "websocket.md").read_text(encoding="utf-8")
    section = page.partition("## What is missing of `websockets`")[2]
    return dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE))


def test_the_page_lists_exactly_the_missing_names() -> None:
    missing = {name for name in websockets.__all__ if not hasattr(websocket, name)}
    assert listed().keys() == missing
    assert all(listed().values())


def test_all_names_are_exported() -> None:
    assert set(websockets.__all__) - listed().keys() <= set(websocket.__all__)
    assert all(hasattr(websocket, name) for name in websocket.__all__)


@pytest.mark.parametrize("name", sorted(websockets.exceptions.__all__))
def test_an_exception_has_the_bases_and_the_text_of_the_original(name: str) -> None:
    original: Any = getattr(websockets.exceptions, name)
    own: Any = getattr(websocket, name)
    bases = {each.__name__ for each in original.__mro__}
    assert bases <= {each.__name__ for each in own.__mro__}
    given = {
        "size_or_message": 5,
        "max_size": 4,
        "current_size": None,
        "pos": 1,
        "rcvd": None,
        "sent": None,
        "rcvd_then_sent": None,
        "max_fragments": 3,
        "response": websocket.Response(404, "Not Found", websocket.Headers()),
    }
    parameters = list(inspect.signature(original.__init__).parameters.values())[1:]
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        arguments: list[Any] = ["text"]
    else:
        arguments = [given.get(each.name, f"a {each.name}") for each in parameters]
    assert str(own(*arguments)) == str(original(*arguments))


@pytest.mark.parametrize("kind", ["CloseCode", "Opcode", "State", "Side"])
def test_an_enumeration_has_the_members_of_the_original(kind: str) -> None:
    original: Any = getattr(websockets, kind)
    own: Any = getattr(websocket, kind)
    assert {each.name: each.value for each in own} == {each.name: each.value for each in original}


# No argument of these is missing; `websockets` has some that mean nothing here.
CALLS: list[tuple[Any, Any]] = [
    (websockets.asyncio.client.connect, websocket.connect),
    (websockets.asyncio.server.serve, websocket.serve),
    (websockets.asyncio.server.broadcast, websocket.broadcast),
    (websockets.asyncio.server.basic_auth, websocket.basic_auth),
    (websockets.asyncio.client.unix_connect, websocket.unix_connect),
    (websockets.asyncio.server.unix_serve, websocket.unix_serve),
]


@pytest.mark.parametrize(("original", "own"), CALLS)
def test_a_call_takes_the_arguments_of_the_original(original: Any, own: Any) -> None:
    assert inspect.signature(original).parameters.keys() <= inspect.signature(own).parameters.keys()


@pytest.mark.parametrize(
    "module",
    [
        "asyncio.client",
        "asyncio.connection",
        "asyncio.router",
        "asyncio.server",
        "datastructures",
        "exceptions",
        "frames",
        "http11",
        "protocol",
        "sync.client",
        "sync.server",
        "typing",
    ],
)
def test_a_module_is_where_it_is_in_the_original(module: str) -> None:
    original = importlib.import_module(f"websockets.{module}")
    own = importlib.import_module(f"penstock.websocket.{module}")
    # Its classes, and the functions of the blocking modules.
    wanted = {
        name
        for name in getattr(original, "__all__", ())
        if (name[0].isupper() and not name.isupper()) or "sync." in module
    }
    left_out = {"broadcast", "reconnect", "unix_reconnect"} if module.startswith("sync.") else set()
    assert wanted - left_out - listed().keys() <= set(dir(own))
