"""The names of the numbers on the wire: gases, units, statistics."""

from penstock.alicat.registry.gases import Gas
from penstock.alicat.registry.loop_control import LoopControlVariable
from penstock.alicat.registry.statistics import Statistic
from penstock.alicat.registry.units import Unit

__all__ = ["Gas", "LoopControlVariable", "Statistic", "Unit"]
