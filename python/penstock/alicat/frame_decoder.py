"""Data frames to values, by a plan made once.

A frame carries no checksum. What can be checked is its form, and the form is rich: the unit's
letter, the number of columns, the digits of each, and their fixed widths. One regular expression
checks all of it and cuts the columns out in the same pass, which is also the fastest way to read
a frame in Python.

Widths catch the commonest damage of a serial line, a lost byte: ``+014.62`` without its zero is a
number still, but not a column of seven. Since the widths of every firmware are not known, a width
is insisted on only where the instrument has shown in a *sample* frame that it keeps to it. A
column may grow beyond it (a reading beyond its digits) but never shrink.

A gas name has no such form: a damaged ``N2`` reads ``Nr``. So a name that is neither a known gas
nor one that this instrument sent before (users name their own mixes) is believed when it comes a
second time in succession.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

from .errors import AlicatParseError, ErrorContext
from .registry import Gas
from .replies import refuse_line
from .status import NO_STATUS, STATUS_BY_TOKEN, StatusCode

__all__ = ["Column", "FrameDecoder", "ParsedFrame", "UnseenGasError"]

_NUMBER = rb"([+-]?\d+(?:\.\d*)?|-{2,})"
_NO_CODES: frozenset[str] = frozenset()
_NAN = float("nan")
_GASES = frozenset(gas.value.encode() for gas in Gas)


class Column(NamedTuple):
    """A column of a frame: its name, what it holds, and its advertised width if known."""

    name: str
    kind: Literal["float", "str"]
    width: int | None
    is_gas: bool = False


@dataclass(frozen=True, slots=True)
class ParsedFrame:
    """The values of one frame, without times."""

    unit_id: str
    values: Mapping[str, float | str]
    status: frozenset[StatusCode]
    unknown_status: frozenset[str]


class UnseenGasError(AlicatParseError):
    """A gas name that needs a second frame to be believed."""


class FrameDecoder:
    """Decodes the data frames of one unit. A pure function of the line; reusable and cheap.

    Args:
        columns: The columns after the unit id, in order.
        unit_id: The letter that every frame must begin with.
        advertised: Status codes that the instrument announced.
        sample: A frame of this instrument. Widths that it confirms are insisted on.
    """

    __slots__ = (
        "_advertised",
        "_converters",
        "_gases",
        "_match",
        "_names",
        "_texts",
        "_unseen_gas",
        "columns",
        "confirmed_widths",
        "unit_id",
    )

    def __init__(
        self,
        columns: tuple[Column, ...],
        unit_id: str,
        advertised: frozenset[str] = _NO_CODES,
        sample: bytes | None = None,
    ) -> None:
        self.columns = columns
        self.unit_id = unit_id
        self.confirmed_widths: tuple[int | None, ...] = (None,) * len(columns)
        self._advertised = advertised
        self._names = tuple(column.name for column in columns)
        self._texts: dict[bytes, str] = {}
        self._gases: dict[bytes, str] = {}
        self._unseen_gas: bytes | None = None
        self._converters = tuple(self._converter(column) for column in columns)
        self._match = self._compile()
        if sample is not None:
            self.confirmed_widths = self._confirm(sample)
            self._match = self._compile()
            match = self._match(sample)
            for column, text in zip(columns, match.groups() if match else (), strict=False):
                if column.is_gas:
                    self._gases[text] = self._text(text)

    def __call__(self, line: bytes) -> ParsedFrame:
        """Decode ``line``, which has no surrounding white space.

        Raises:
            AlicatProtocolError: it is no frame of this unit and format; the class tells why.
        """
        match = self._match(line)
        if match is None:
            refuse_line(line, self.unit_id, wanted=self._wanted())
        *texts, tail = match.groups()
        try:
            values = {
                name: convert(text)
                for name, convert, text in zip(self._names, self._converters, texts, strict=True)
            }
        except ValueError:
            values = self._with_absent(texts)
        if tail:
            status, unknown = self._codes(line, tail)
            return ParsedFrame(self.unit_id, MappingProxyType(values), status, unknown)
        return ParsedFrame(self.unit_id, MappingProxyType(values), NO_STATUS, _NO_CODES)

    def accepts(self, line: bytes) -> bool:
        """Whether ``line`` has the form of a frame of this unit."""
        return self._match(line) is not None

    # -- the plan

    def _compile(self) -> Callable[[bytes], re.Match[bytes] | None]:
        parts = [re.escape(self.unit_id.encode())]
        for column, width in zip(self.columns, self.confirmed_widths, strict=True):
            if column.kind == "float":
                ahead = b"" if width is None else b"(?=[^ ]{%d})" % width
                parts.append(b" +" + ahead + _NUMBER)
            elif width is None:
                parts.append(b" +([!-~]+)")
            else:
                # Exactly the width, padded on the left; or longer, then without padding.
                parts.append(b" ((?=[ ]*[!-~])[ -~]{%d}(?= |$)|[!-~]{%d,})" % (width, width))
        return re.compile(b"".join(parts) + rb"((?: +[A-Z0-9]{3})*)$").match

    def _confirm(self, sample: bytes) -> tuple[int | None, ...]:
        """The widths that the sample shows, where they agree with what was advertised."""
        match = self._match(sample)
        if match is None:
            refuse_line(sample, self.unit_id, wanted=self._wanted())
        widths: list[int | None] = []
        for index, column in enumerate(self.columns, start=1):
            start, end = match.span(index)
            if column.kind == "str":
                # With its padding: back to the end of the column before, less one separator.
                before = match.end(index - 1) if index > 1 else len(self.unit_id)
                padded = end - before - 1
                widths.append(padded if column.width in (None, padded) else None)
            else:
                width = end - start
                # A legacy table counts the sign of its bounds; the column need not have one.
                unsigned = sample[start : start + 1].isdigit()
                agrees = column.width in ((width, width + 1) if unsigned else (width,))
                widths.append(width if agrees else None)
        return tuple(widths)

    def _wanted(self) -> str:
        return f"a data frame of {len(self.columns)} columns ({', '.join(self._names)})"

    def _converter(self, column: Column) -> Callable[[bytes], float | str]:
        if column.kind == "float":
            return float
        return self._gas if column.is_gas else self._text

    # -- the rarer contents

    def _gas(self, raw: bytes) -> str:
        gas = self._gases.get(raw)
        if gas is None:
            name = raw.lstrip(b" ")
            if name not in _GASES and name != self._unseen_gas:
                self._unseen_gas = name
                raise UnseenGasError(
                    f"unit {self.unit_id} reports the gas {name!r}, which is no known gas and new "
                    "for this instrument; it is believed when it comes again",
                    field_name="Gas",
                    actual=raw,
                    context=ErrorContext(unit_id=self.unit_id, raw_response=raw),
                )
            gas = self._text(raw)
            if len(self._gases) < 64:
                self._gases[raw] = gas
        return gas

    def _text(self, raw: bytes) -> str:
        text = self._texts.get(raw)
        if text is None:
            stripped = raw.lstrip(b" ")
            if b" " in stripped or stripped in STATUS_BY_TOKEN:
                raise self._misplaced(raw)
            text = stripped.decode("ascii")
            if len(self._texts) < 64:
                self._texts[raw] = text
        return text

    def _with_absent(self, texts: list[bytes]) -> dict[str, float | str]:
        values: dict[str, float | str] = {}
        for column, text in zip(self.columns, texts, strict=True):
            if column.kind == "str":
                values[column.name] = self._gas(text) if column.is_gas else self._text(text)
            else:
                values[column.name] = _NAN if text.startswith(b"--") else float(text)
        return values

    def _codes(self, line: bytes, tail: bytes) -> tuple[frozenset[StatusCode], frozenset[str]]:
        known: set[StatusCode] = set()
        unknown: set[str] = set()
        for token in tail.split():
            code = STATUS_BY_TOKEN.get(token)
            if code is not None:
                known.add(code)
            elif token.decode("ascii") in self._advertised:
                unknown.add(token.decode("ascii"))
            else:
                raise self._misplaced(line)
        return frozenset(known), frozenset(unknown)

    def _misplaced(self, raw: bytes) -> AlicatParseError:
        return AlicatParseError(
            f"unit {self.unit_id}: {raw!r} is not {self._wanted()}",
            field_name="data_frame",
            expected=self._wanted(),
            actual=raw,
            context=ErrorContext(unit_id=self.unit_id, raw_response=raw),
        )
