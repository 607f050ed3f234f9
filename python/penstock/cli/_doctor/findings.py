"""The result of a check of ``penstock doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Finding", "Status"]


class Status(Enum):
    """The severity of a finding."""

    FINE = "fine"
    """Nothing is missing."""
    LESS = "less"
    """The part works but could work better; the text says how."""
    BROKEN = "broken"
    """The part does not work; the text names the remedy."""


@dataclass(frozen=True)
class Finding:
    """One line of the output of ``penstock doctor``."""

    name: str
    status: Status
    text: str

    def as_json(self) -> dict[str, str]:
        """Return the findings in the form that ``--json`` prints."""
        return {"name": self.name, "status": self.status.value, "text": self.text}
