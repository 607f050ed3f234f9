"""What a case is: the report it comes from, what its user saw, and the program that judges a loop.

A case is a coroutine that gets the loop it runs on, or a plain function that gets a factory and
runs loops of its own. It returns if the loop does right, and raises otherwise. A loop that lacks
the method (NotImplementedError) and a CPython too old for the behaviour make it not applicable.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

Loop = asyncio.AbstractEventLoop
Factory = Callable[[], Loop]


class NotApplicable(Exception):
    """The behaviour does not exist under this version of CPython."""


class Wrong(Exception):
    """The loop does something else than what the case expects."""


@dataclass(frozen=True)
class Case:
    name: str
    report: str
    saw: str
    program: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    @property
    def takes_factory(self) -> bool:
        return not inspect.iscoroutinefunction(self.program)


class Room:
    """The cases of one subject, in the order of their definition."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cases: list[Case] = []

    def case(
        self, report: str, saw: str, rows: Mapping[str, tuple[Any, ...]] | None = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Make a case of the decorated program, or one of each row, with the row's arguments."""

        def register(program: Callable[..., Any]) -> Callable[..., Any]:
            name = f"{self.name}.{program.__name__}"
            for row, arguments in (rows or {"": ()}).items():
                full = f"{name}[{row}]" if row else name
                self.cases.append(Case(full, report, saw, program, arguments))
            return program

        return register


def expect(actual: object, wanted: object, what: str) -> None:
    if actual != wanted:
        raise Wrong(f"{what}: {shortened(actual)} instead of {shortened(wanted)}")


def expect_true(holds: object, otherwise: str) -> None:
    if not holds:
        raise Wrong(otherwise)


def shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:100]}... ({len(text)} characters)"


def needs_python(*version: int) -> None:
    if sys.version_info < version:
        raise NotApplicable(f"CPython before {'.'.join(map(str, version))}")


async def raised_by(awaitable: Awaitable[Any]) -> str:
    """Return the name of the class of the exception that the awaitable raises, or ``nothing``."""
    try:
        await awaitable
    except NotImplementedError:
        raise
    except Exception as exc:
        return type(exc).__name__
    return "nothing"


def raised_in(function: Callable[..., Any], *arguments: Any) -> str:
    try:
        function(*arguments)
    except NotImplementedError:
        raise
    except Exception as exc:
        return type(exc).__name__
    return "nothing"


def reports_of(loop: Loop) -> list[dict[str, Any]]:
    """Return the list that collects what the loop reports to its exception handler from now on."""
    reports: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: reports.append(context))
    return reports


def expect_no_reports(reports: list[dict[str, Any]]) -> None:
    told = [f"{context.get('message')}: {context.get('exception')!r}" for context in reports]
    expect(told, [], "reports to the exception handler")
