"""Blocking functions made asynchronous: :func:`on_worker`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from penstock.files._backend import current_backend

P = ParamSpec("P")
T = TypeVar("T")


def on_worker(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return an asynchronous ``function`` that runs on a worker thread of the running loop.

    A cancelled await returns at once; the function continues.
    """

    @wraps(function)
    async def call(*arguments: P.args, **keywords: P.kwargs) -> T:
        return await current_backend().call(partial(function, *arguments, **keywords))

    return call
