"""The random conversations over HTTP/2: what applications and clients see is as in HTTP/1.1."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import penstock

from .http2_client import Http2Client, request_fields, speaking_http2
from .support import serving
from .test_conversations import FRAMING, Conversation, with_uvicorn


async def talk(client: Http2Client, conversation: Conversation) -> Any:
    method = conversation.method.encode()
    length = (b"content-length", b"%d" % len(conversation.body))
    more = [length] if method == b"POST" and not conversation.chunked else []
    fields = request_fields(b"/a%20b?q", method, (b"x-field", b"1"), *more)
    stream = client.ask(fields, ends=method != b"POST")
    if method == b"POST":
        await client.upload(stream, conversation.body)
    answer = await client.answer(stream)
    headers = [field for field in answer.fields.items() if field[0] not in FRAMING]
    if answer.ended:
        return answer.status, headers, bytes(answer.body)
    return "closed" if answer.status == 0 else (answer.status, headers, "cut off")


async def with_http2(seeds: range) -> list[Any]:
    current: list[Conversation] = []
    found = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await current[-1].application(scope, receive, send)

    async with serving(app, http2=True) as server:
        for seed in seeds:
            current.append(Conversation(seed))
            async with speaking_http2(server) as client:
                found.append((current[-1], await talk(client, current[-1])))
    return found


def seen_of(conversation: Any) -> Any:
    """Return what an application has seen, without the fields that frame a body."""
    framing = (b"content-length", b"transfer-encoding")
    first, *rest = conversation
    method, path, query, headers = first
    return [(method, path, query, [each for each in headers if each[0] not in framing]), *rest]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_conversations_are_those_of_uvicorn() -> None:
    seeds = range(200, 300)
    expected = asyncio.run(asyncio.wait_for(with_uvicorn(seeds), 60))
    own = penstock.run(asyncio.wait_for(with_http2(seeds), 60))
    for (seed, _, actions, seen, answers), (conversation, answer) in zip(
        expected, own, strict=True
    ):
        assert seen_of(conversation.seen) == seen_of(seen), (seed, actions)
        if answers[0] in ("closed", "cut off") or answers[0][2] == "cut off":
            assert answer == "closed" or answer[2] == "cut off", (seed, actions)
        else:
            assert answer == answers[0], (seed, actions)
