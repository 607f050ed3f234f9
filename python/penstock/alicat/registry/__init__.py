"""The names behind the numbers on the wire: gases, units, statistics."""

from .gases import Gas
from .statistics import Statistic
from .units import Unit

__all__ = ["Gas", "Statistic", "Unit"]
