"""Finding a member of a registry by its wire number or by what people call it."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from enum import StrEnum
from typing import Generic, TypeVar

from ..errors import UnknownGasError, UnknownStatisticError

__all__ = ["Registry"]

E = TypeVar("E", bound=StrEnum)


class Registry(Generic[E]):
    """The members of one enumeration by number and by name; names are matched in any case.

    ``by_name`` has lower-case keys without spaces; ``unknown`` is raised for anything else.
    """

    def __init__(
        self,
        codes: Mapping[E, int],
        by_name: Mapping[str, E],
        unknown: type[UnknownGasError] | type[UnknownStatisticError],
    ) -> None:
        self._codes = dict(codes)
        self._by_code = {code: member for member, code in codes.items()}
        self._by_name = dict(by_name)
        self._unknown = unknown

    def code_of(self, member: E) -> int:
        """The number of a member."""
        return self._codes[member]

    def find(self, code: int) -> E | None:
        """The member with this number, if there is one."""
        return self._by_code.get(code)

    def by_code(self, code: int) -> E:
        """The member with this number; raises ``unknown`` where none has it."""
        member = self._by_code.get(code)
        if member is None:
            raise self._unknown(code)
        return member

    def by_name(self, text: str) -> E:
        """The member of this name; raises ``unknown``, with near names, if none has it."""
        name = text.strip().casefold().replace(" ", "_")
        member = self._by_name.get(name)
        if member is None:
            near = get_close_matches(name, self._by_name, n=3)
            raise self._unknown(text, suggestions=tuple(self._by_name[n].value for n in near))
        return member
