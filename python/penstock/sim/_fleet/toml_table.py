"""Reading a TOML file strictly: every error names the key and what to write there."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

__all__ = ["TomlError", "TomlTable", "read_toml"]


class TomlError(ValueError):
    """A file that cannot be used: one sentence with the key, the value and the remedy."""


def read_toml(path: str | Path) -> TomlTable:
    """The top table of a file.

    Raises:
        TomlError: the file cannot be read or is not TOML.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise TomlError(f"{path}: {reason}; name a TOML file that can be read") from error
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TomlError(f"{path}: not TOML: {error}; correct that line") from error
    return TomlTable(values, str(path))


class TomlTable:
    """One table. Every getter removes its key; ``finish`` rejects the keys that are left."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.where = where
        self._values = dict(values)
        self._known: list[str] = []

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def error(self, key: str, message: str) -> TomlError:
        """The error that says ``message`` of a key."""
        return TomlError(f"{self.where}: {key}: {message}")

    def text(self, key: str, default: str | None = None) -> str:
        """A string; required without a default."""
        value = self._take(key, default, "a string in quotes")
        if not isinstance(value, str):
            raise self.error(key, f"{value!r} is not a string; write it in quotes")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A number; required without a default."""
        value = self._take(key, default, "a number")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"{value!r} is not a number; write one without quotes")
        return float(value)

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number; required without a default."""
        value = self._take(key, default, "a whole number")
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f"{value!r} is not a whole number; write one without quotes")
        return value

    def any(self, key: str) -> Any:
        """A value of any type; required."""
        return self._take(key, None, "a value")

    def choice(self, key: str, choices: Sequence[str], default: str | None = None) -> str:
        """One of ``choices``."""
        value = self.text(key, default)
        if value not in choices:
            near = get_close_matches(value, choices, 1)
            remedy = f"did you mean {near[0]!r}?" if near else f"write one of {', '.join(choices)}"
            raise self.error(key, f"{value!r} is unknown; {remedy}")
        return value

    def table(self, key: str) -> TomlTable:
        """A table; empty if it is not there."""
        value = self._take(key, {}, "a table")
        if not isinstance(value, Mapping):
            found = "an array" if isinstance(value, list) else repr(value)
            raise self.error(key, f"{found} is not a table; write [{key}] above its keys")
        return TomlTable(value, f"{self.where}: [{key}]")

    def tables(self, key: str) -> list[TomlTable]:
        """An array of tables; at least one."""
        values = self._take(key, [], "an array of tables")
        if not isinstance(values, list) or not all(isinstance(v, Mapping) for v in values):
            raise self.error(key, f"is not an array of tables; write [[{key}]] above each")
        if not values:
            raise self.error(key, f"there is none; write [[{key}]] and its keys")
        return [
            TomlTable(value, f"{self.where}: {key} {number}")
            for number, value in enumerate(values, start=1)
        ]

    def knows(self, *keys: str) -> None:
        """Name keys that are possible here, for the remedy in an error."""
        self._known += [key for key in keys if key not in self._known]

    def remaining(self) -> list[str]:
        """The keys that were not taken out."""
        return list(self._values)

    def finish(self) -> None:
        """Raise TomlError for a key that was not taken out."""
        for key in self._values:
            near = get_close_matches(key, self._known, 1)
            remedy = f"did you mean {near[0]}?" if near else f"write {', '.join(self._known)}"
            raise self.error(key, f"is not a key that is known here; {remedy}")

    def _take(self, key: str, default: object, wanted: str) -> Any:
        self._known.append(key)
        value = self._values.pop(key, default)
        if value is None:
            raise self.error(key, f"is missing; write {key} = {wanted}")
        return value
