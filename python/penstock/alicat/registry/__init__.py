"""The names behind the numbers on the wire: gases, units, statistics."""

from .gases import Gas
from .loop_control import LoopControlVariable
from .statistics import Statistic
from .units import Unit

__all__ = ["Gas", "LoopControlVariable", "Statistic", "Unit"]
