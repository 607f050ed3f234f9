"""What ``penstock doctor`` looks at, a module for each part; and what a check says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Finding", "Status"]


class Status(Enum):
    """How good a finding is."""

    FINE = "fine"
    """Everything is there."""
    LESS = "less"
    """It works, though not as well as it could; the text tells what would help."""
    BROKEN = "broken"
    """It does not work; the text tells the remedy."""


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's."""

    name: str
    status: Status
    text: str

    def as_json(self) -> dict[str, str]:
        """For ``--json``."""
        return {"name": self.name, "status": self.status.value, "text": self.text}
