"""Arguments that had another name in an earlier release."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)


def renamed(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function take its arguments under their old names too, ``old="new"``, with a warning.

    Type checkers know the new names only. An argument given under both is a TypeError. A coroutine
    function stays one, and warns when it is awaited.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        what = function.__qualname__.removesuffix(".__init__")

        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def call_and_wait(*args: P.args, **kwargs: P.kwargs) -> Any:
                _use_new_names(what, names, kwargs)
                return await function(*args, **kwargs)

            return cast("Callable[P, R]", call_and_wait)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            _use_new_names(what, names, kwargs)
            return function(*args, **kwargs)

        return call

    return decorate


def renamed_fields(**names: str) -> Callable[[C], C]:
    """The same for the fields of a dataclass: its constructor's arguments, and to read them."""

    def decorate(cls: C) -> C:
        cls.__init__ = renamed(**names)(cls.__init__)  # type: ignore[misc]
        for old, new in names.items():
            setattr(cls, old, property(_read_by_old_name(cls.__name__, old, new)))
        return cls

    return decorate


def _read_by_old_name(what: str, old: str, new: str) -> Callable[[Any], Any]:
    def read(instance: Any) -> Any:
        _warn(f"{what}.{old}", new, stacklevel=3)
        return getattr(instance, new)

    return read


def _use_new_names(what: str, names: dict[str, str], kwargs: dict[str, Any]) -> None:
    for old in names.keys() & kwargs.keys():
        new = names[old]
        between = _frames_of_replace()
        # dataclasses.replace adds the value of each field that it was not given by its new name.
        if new in kwargs and not between:
            raise TypeError(f"{what}() got {old} and {new}; give only {new}")
        _warn(f"{what}(): {old}", new, stacklevel=4 + between)
        kwargs[new] = kwargs.pop(old)


def _frames_of_replace() -> int:
    """Through how many calls of dataclasses.replace, or copy.replace, a constructor is called."""
    count = 0
    frame = sys._getframe(3)  # of what has called the constructor
    while frame.f_globals.get("__name__") in ("dataclasses", "copy") and frame.f_back is not None:
        count, frame = count + 1, frame.f_back
    return count


def _warn(old: str, new: str, *, stacklevel: int) -> None:
    warnings.warn(
        f"{old} is now {new}; the next release takes only that",
        DeprecationWarning,
        stacklevel=stacklevel,
    )
