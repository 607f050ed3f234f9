"""One table of a ``run.toml``: values of the right type, or a sentence about the wrong one."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping, Sequence
from typing import NoReturn

from penstock.cli._errors import CommandError, ExitCode


class Table:
    """One table of the file, with the label that error messages use for it."""

    def __init__(self, file: str, label: str, entries: Mapping[str, object]) -> None:
        self.file = file
        self.label = label
        self.entries = entries

    def refuse(self, key: str, problem: str, remedy: str) -> NoReturn:
        value = as_toml(self.entries[key])
        refuse_config(f"{self.file}: {self.label}: {key} = {value} {problem}; {remedy}")

    def refuse_unknown(self, known: Sequence[str]) -> None:
        for key in self.entries:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                remedy = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(known)}"
                refuse_config(f"{self.file}: {self.label}: unknown key {as_toml(key)}; {remedy}")

    def table(self, key: str) -> Table:
        value = self.entries.get(key, {})
        if not isinstance(value, dict):
            self.refuse(key, "is not a table", f"write [{key}] on its own line")
        return Table(self.file, f"[{key}]", value)

    def tables(self, key: str) -> list[Table]:
        value = self.entries.get(key, [])
        outer = "device." if key in ("setpoint", "limit") else ""
        header = f"[[{outer}{key}]]"
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.refuse(key, "is not a list of tables", f"write {header} before each of them")
        owner = f"{self.label}, " if outer else ""
        return [
            Table(self.file, f"{owner}{header} number {position}", item)
            for position, item in enumerate(value, 1)
        ]

    def text(self, key: str, meaning: str, *, default: str | None = None) -> str:
        value = self._get(key, meaning, default)
        if not isinstance(value, str):
            self.refuse(key, "is not text", f"write {meaning}, in double quotes")
        if not value.strip():
            self.refuse(key, "is empty", f"write {meaning}")
        if not value.isprintable():
            self.refuse(key, "contains characters that cannot be printed", f"write {meaning}")
        return value

    def words(self, key: str, meaning: str) -> tuple[str, ...]:
        """A list of texts that is not empty."""
        value = self._get(key, meaning, None)
        if not isinstance(value, list) or not value:
            self.refuse(key, "is not a list of words", f"write {meaning}")
        for word in value:
            if not isinstance(word, str) or not word.isprintable() or not word:
                self.refuse(key, f"has {as_toml(word)}, which is not a word", f"write {meaning}")
        return tuple(value)

    def choice(self, key: str, allowed: Sequence[str]) -> str:
        """One of ``allowed``, of which the first is the default."""
        value = self.entries.get(key, allowed[0])
        if not isinstance(value, str) or value not in allowed:
            self.refuse(key, "is not known", f"write one of {', '.join(map(as_toml, allowed))}")
        return value

    def truth(self, key: str) -> bool:
        """``true`` or ``false``, which is the default."""
        value = self.entries.get(key, False)
        if not isinstance(value, bool):
            self.refuse(key, "is neither true nor false", "write true or false")
        return value

    def integer(
        self, key: str, meaning: str, *, low: int, high: int, default: int | None = None
    ) -> int:
        value = self._get(key, meaning, default)
        if not isinstance(value, int) or isinstance(value, bool):
            such = low if default is None else default
            self.refuse(key, "is not a whole number", f"write {meaning} such as {such}")
        if not low <= value <= high:
            self.refuse(key, "is out of range", f"write {meaning} from {low} to {high}")
        return value

    def number(
        self,
        key: str,
        meaning: str,
        *,
        to: float,
        low: float | None = None,
        above: float | None = None,
        default: float | None = None,
    ) -> float:
        value = self._get(key, meaning, default)
        if not isinstance(value, int | float) or isinstance(value, bool):
            self.refuse(key, "is not a number", f"write {meaning}, without quotes")
        if isinstance(value, float) and not math.isfinite(value):
            self.refuse(key, "is not a finite number", f"write {meaning}")
        if (
            value > to
            or (low is not None and value < low)
            or (above is not None and value <= above)
        ):
            span = (
                f"above {above:g} and up to {to:g}" if above is not None else f"{low:g} to {to:g}"
            )
            self.refuse(key, "is out of range", f"write {meaning}, {span}")
        return float(value)

    def choices(self, key: str, allowed: Sequence[str], default: Sequence[str]) -> tuple[str, ...]:
        value = self.entries.get(key, list(default))
        listed = ", ".join(f'"{name}"' for name in allowed)
        if not isinstance(value, list) or not value:
            self.refuse(key, "is not a list of formats", f"write [{listed}] or a part of it")
        chosen: list[str] = []
        for item in value:
            if not isinstance(item, str) or item not in allowed:
                self.refuse(
                    key, f"names {as_toml(item)}, an unknown format", f"choose from {listed}"
                )
            if item in chosen:
                self.refuse(key, f"names {as_toml(item)} twice", "name each format once")
            chosen.append(item)
        return tuple(chosen)

    def _get(self, key: str, meaning: str, default: object) -> object:
        if key in self.entries:
            return self.entries[key]
        if default is None:
            refuse_config(f"{self.file}: {self.label}: the key {key} is missing; write {meaning}")
        return default


def as_toml(value: object, *, nested: bool = False) -> str:
    """Return ``value`` roughly as in the file, on one line and cut to a readable length."""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, str) and "://" in value and "@" in value:
        text = json.dumps(f"{value.partition('://')[0][:20]}://...")  # it may hold a password
    elif isinstance(value, str):
        text = json.dumps(value[:60], ensure_ascii=not value.isprintable())
    elif isinstance(value, int) and abs(value) > 10**60:
        text = "a number of more than 60 digits"
    elif isinstance(value, dict):
        text = "{...}" if value else "{}"
    elif isinstance(value, list):
        shown = [] if nested else [as_toml(item, nested=True) for item in value[:4]]
        text = f"[{', '.join(shown + ['...'] * (len(value) > len(shown)))}]"
    else:
        text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def refuse_config(sentence: str) -> NoReturn:
    raise CommandError(sentence, ExitCode.CONFIG)
