"""Header fields of the opening handshake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping

__all__ = ["Headers", "HeadersLike", "MultipleValuesError"]


class MultipleValuesError(LookupError):
    """`headers[name]` was asked for a field that occurs several times."""

    def __init__(self, name: str) -> None:
        super().__init__(name)

    def __str__(self) -> str:
        return f"{self.args[0]} occurs several times; use get_all()"


class Headers(MutableMapping[str, str]):
    """Header fields: a mapping whose names have no case, and may occur several times.

    `headers[name]` is the only value of that name, `get_all` has all of them, and setting an item
    adds one. Iterating yields the names in lower case.

    Args:
        fields: The initial fields, in their order.
        **named: Further fields.
    """

    def __init__(self, fields: HeadersLike = (), /, **named: str) -> None:
        self._fields: list[tuple[str, str]] = []
        self.update(fields, **named)

    def update(self, fields: HeadersLike = (), /, **named: str) -> None:  # type: ignore[override]
        """Add all fields, including those whose names are there."""
        pairs = fields.items() if isinstance(fields, Mapping) else fields
        if isinstance(fields, Headers):
            pairs = list(fields.raw_items())
        for name, value in pairs:
            self[name] = value
        for name, value in named.items():
            self[name] = value

    def __getitem__(self, name: str) -> str:
        values = self.get_all(name)
        if not values:
            raise KeyError(name)
        if len(values) > 1:
            raise MultipleValuesError(name)
        return values[0]

    def __setitem__(self, name: str, value: str) -> None:
        self._fields.append((name, str(value)))

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self.discard(name)

    def discard(self, name: str) -> None:
        """Remove all fields of that name, if there are any."""
        lower = name.lower()
        self._fields = [pair for pair in self._fields if pair[0].lower() != lower]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self.get_all(name))

    def __iter__(self) -> Iterator[str]:
        return iter({name.lower(): None for name, _ in self._fields})

    def __len__(self) -> int:
        return len({name.lower() for name, _ in self._fields})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Headers):
            return NotImplemented
        return all(self.get_all(name) == other.get_all(name) for name in {*self, *other})

    __hash__ = None  # type: ignore[assignment] # as that of any mutable mapping

    def __repr__(self) -> str:
        return f"Headers({self._fields!r})"

    def __str__(self) -> str:
        return "".join(f"{name}: {value}\r\n" for name, value in self._fields) + "\r\n"

    def copy(self) -> Headers:
        """Return a copy."""
        return Headers(self)

    def get_all(self, name: str) -> list[str]:
        """Return all values of that name, in their order."""
        lower = name.lower()
        return [value for other, value in self._fields if other.lower() == lower]

    def raw_items(self) -> Iterator[tuple[str, str]]:
        """Iterate over all fields, in their order."""
        return iter(self._fields)

    def serialize(self) -> bytes:
        """Return the fields as they are sent, with the empty line that ends them.

        Raises:
            ValueError: If a name or a value has a character that would end its line, or that is not
                in ISO 8859-1, in which received fields are decoded.
        """
        for name, value in self._fields:
            if any(not 0x20 < ord(c) < 0x7F or c in ':"' for c in name) or not name:
                raise ValueError(f"{name!r} is not a name of a header field; use letters and '-'")
            if any((ord(c) < 0x20 and c != "\t") or c == "\x7f" for c in value):
                raise ValueError(f"the value of {name} has a control character: {value!r}")
            if any(ord(c) > 0xFF for c in value):
                raise ValueError(
                    f"the value of {name} is not in ISO 8859-1: {value!r}; quote it, for example"
                    " with urllib.parse.quote()"
                )
        return str(self).encode("latin-1")


HeadersLike = Headers | Mapping[str, str] | Iterable[tuple[str, str]]
