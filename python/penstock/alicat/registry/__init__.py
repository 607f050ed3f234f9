"""The names of the numbers on the wire: gases, units, statistics."""

from penstock.alicat.registry.gases import Gas
from penstock.alicat.registry.statistics import LoopControlVariable, Statistic
from penstock.alicat.registry.units import Unit

__all__ = ["Gas", "LoopControlVariable", "Statistic", "Unit"]
