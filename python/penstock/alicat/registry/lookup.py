"""Enumerations whose members have a number on the wire and names that people call them by."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Self

from penstock.alicat.errors import UnknownGasError, UnknownStatisticError

__all__ = ["Coded", "index_members"]


class Coded(StrEnum):
    """A text with a number on the wire: ``AIR = "Air", 0``.

    Names are matched in any case, with a space or an underscore between words. Every enumeration is
    indexed once, by :func:`index_members`.
    """

    code: int
    """The number on the wire."""

    def __new__(cls, value: str, code: int) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.code = code
        return member

    @classmethod
    def from_code(cls, code: int) -> Self | None:
        """The member with this number, or ``None`` for one that is not listed here."""
        return _INDICES[cls].by_code.get(code)

    @classmethod
    def from_name(cls, name: str) -> Self | None:
        """The member of this name, or ``None`` for one that is not listed here."""
        return _INDICES[cls].by_name.get(_key(name))

    @classmethod
    def by_code(cls, code: int) -> Self:
        """The member with this number.

        Raises:
            UnknownGasError, UnknownStatisticError: none listed here has it.
        """
        member = cls.from_code(code)
        if member is None:
            raise _INDICES[cls].unknown(code)
        return member

    @classmethod
    def number_of(cls, value: Self | str | int) -> int:
        """The number of a member, from itself, from one of its names or from the number.

        A number is not looked up: the instrument may know more of them.

        Raises:
            UnknownGasError, UnknownStatisticError: nothing has that name.
        """
        return value if isinstance(value, int) else cls.coerce(value).code

    @classmethod
    def coerce(cls, value: Self | str | int) -> Self:
        """A member from itself, from one of its names or from its number.

        Raises:
            UnknownGasError, UnknownStatisticError: nothing matches; the error suggests near names.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, int):
            return cls.by_code(value)
        member = cls.from_name(value)
        if member is None:
            index = _INDICES[cls]
            near = [
                name
                for name in get_close_matches(_key(value), index.by_name, n=4)
                if name != "none"  # a value of its own, and no help to anybody
            ][:3]
            suggestions = tuple(dict.fromkeys(index.by_name[name].value for name in near))
            raise index.unknown(value, suggestions=suggestions)
        return member


class _Index:
    def __init__(
        self,
        members: type[Coded],
        aliases: Mapping[Any, tuple[str, ...]],
        unknown: type[UnknownGasError] | type[UnknownStatisticError],
    ) -> None:
        self.unknown = unknown
        self.by_code: Mapping[int, Any] = MappingProxyType({each.code: each for each in members})
        names = {_key(alias): each for each, texts in aliases.items() for alias in texts}
        self.by_name: Mapping[str, Any] = MappingProxyType(
            names | {_key(each.value): each for each in members}
        )


_INDICES: dict[type[Coded], _Index] = {}


def index_members(
    members: type[Coded],
    aliases: Mapping[Any, tuple[str, ...]],
    unknown: type[UnknownGasError] | type[UnknownStatisticError],
) -> None:
    """Make an enumeration's members findable; ``unknown`` is raised for anything else."""
    _INDICES[members] = _Index(members, aliases, unknown)


def _key(text: str) -> str:
    return text.strip().casefold().replace(" ", "_")
