"""Functions about a path that the kernel's caches mostly answer, without a coroutine then."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import Any, TypeVar, cast

from penstock._core import AnsweredFunction

F = TypeVar("F", bound=Callable[..., Coroutine[Any, Any, Any]])

_OF_FUNCTIONS = ("__code__", "__defaults__", "__kwdefaults__")
"""By these :mod:`inspect` takes an object for a function, and sees that it makes coroutines."""


def answered_from_cache(question: str) -> Callable[[F], F]:
    """Decorate a coroutine function that is called only where the caches have no answer.

    ``question`` is one of the native part's, with its arguments. With others, and by keywords, the
    function itself is called.
    """

    def decorate(function: F) -> F:
        answered = update_wrapper(AnsweredFunction(function, question), function)
        for name in _OF_FUNCTIONS:
            setattr(answered, name, getattr(function, name))
        return cast("F", answered)

    return decorate
