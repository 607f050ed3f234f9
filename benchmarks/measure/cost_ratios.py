"""The cost of a new build relative to an old one, row by row, from the results of a page.

A row is a cell of the page and one of Penstock's contenders. Its cost is the first of the page's
``COSTS`` that the cell holds: CPU or wall-clock time of an operation. A ratio above 1 means that
the new build is slower.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from benchmarks.measure.comparison import Dataclass, Metric
from benchmarks.measure.contenders import is_own
from benchmarks.measure.spread import Spread, spread

Sample = TypeVar("Sample", bound=Dataclass)
Results = Mapping[str, Any]
"""A page's results, as its JSON file holds them."""


@dataclass(frozen=True)
class Cost(Generic[Sample]):
    """A page's figure for what an operation costs.

    Attributes:
        metric: the figure, of which less is better.
        sample: makes a sample from the fields that the JSON file holds for a round.
    """

    metric: Metric[Sample]
    sample: Callable[..., Sample]

    def of(self, fields: Mapping[str, Any]) -> float:
        """The cost of a round."""
        return self.metric.value(self.sample(**fields))


@dataclass(frozen=True)
class RowName:
    """Identifies a row: the labels of its cell, its contender, and the key of its cost."""

    labels: tuple[str, ...]
    contender: str
    cost: str

    def __str__(self) -> str:
        return f"{', '.join(self.labels)}: {self.contender}"


@dataclass(frozen=True)
class RatioRow:
    """The ratios new over old of one row, one for each pair."""

    name: RowName
    pairs: tuple[float, ...]

    @property
    def ratio(self) -> Spread:
        """Median of the pairs with their spread."""
        return spread(self.pairs)

    def is_beyond(self, percent: float) -> bool:
        """Whether the new build costs over *percent* more than the old one."""
        return self.ratio.median > 1 + percent / 100

    def as_json(self) -> dict[str, object]:
        return {
            "labels": list(self.name.labels),
            "contender": self.name.contender,
            "cost": self.name.cost,
            "new_to_old": self.ratio.as_json(),
            "pairs": list(self.pairs),
        }


def costs_by_row(
    results: Results, costs: Sequence[Cost[Any]], rounds: str = "rounds"
) -> dict[RowName, list[float]]:
    """The cost of each round, in the order of measurement.

    Args:
        results: of a page.
        costs: the page's.
        rounds: the key of the rounds: ``rounds``, or ``old_rounds`` for those of the older build
            where two were measured side by side.
    """
    found = {}
    for part, cell in _cells(results):
        labels = (*part, *cell["labels"])
        for contender, record in cell["contenders"].items():
            cost = next((cost for cost in costs if cost.metric.key in record), None)
            if cost is None or not is_own(contender) or not record.get(rounds):
                continue
            name = RowName(labels, contender, cost.metric.key)
            found[name] = [cost.of(fields) for fields in record[rounds]]
    return found


def ratio_rows(
    old: Mapping[RowName, Sequence[float]],
    new: Mapping[RowName, Sequence[float]],
    *,
    turns: int = 1,
) -> list[RatioRow]:
    """The ratios of the rows that both have, in the order of *new*.

    Args:
        old: costs by row, of neighbouring rounds.
        new: the same of the new build.
        turns: how many neighbouring samples make up a pair: a server is loaded in so many turns
            before it is restarted. A pair's ratio is the median of the ratios of its turns. If one
            build has fewer rounds, the last rounds of the other are left out.

    Raises:
        ValueError: if a cost is 0, which has no ratio.
    """
    rows = []
    for name, costs in new.items():
        if name not in old:
            continue
        if 0 in old[name]:
            raise ValueError(f"{name}: a cost of 0 was measured, which has no ratio")
        ratios = [after / before for before, after in zip(old[name], costs, strict=False)]
        groups = [ratios[start : start + turns] for start in range(0, len(ratios), turns)]
        rows.append(RatioRow(name, tuple(statistics.median(group) for group in groups)))
    return rows


def side_by_side_rows(results: Results, costs: Sequence[Cost[Any]]) -> list[RatioRow]:
    """The rows of a page that was measured with two builds; errors as of :func:`ratio_rows`."""
    return ratio_rows(
        costs_by_row(results, costs, "old_rounds"),
        costs_by_row(results, costs),
        turns=_turns(results),
    )


def result_file_rows(old: Results, new: Results, costs: Sequence[Cost[Any]]) -> list[RatioRow]:
    """The rows that two results of a page have in common.

    Their rounds were not measured side by side, so each ratio includes what changed on the machine
    between the two runs.

    Raises:
        ValueError: if the two cannot be compared.
    """
    turns = _turns(new)
    if _turns(old) != turns:
        raise ValueError(
            f"the old rounds have {_turns(old)} turns and the new ones {turns};"
            " measure both with the same --turns"
        )
    rows = ratio_rows(costs_by_row(old, costs), costs_by_row(new, costs), turns=turns)
    if not rows:
        raise ValueError("the two results have no row of Penstock's in common")
    return rows


def missing_rows(results: Results) -> Iterator[str]:
    """A sentence for each of Penstock's contenders that could not be measured."""
    for part, cell in _cells(results):
        for contender, record in cell["contenders"].items():
            if is_own(contender) and "missing" in record:
                labels = ", ".join((*part, *cell["labels"]))
                yield f"{labels}: {contender}: {record['missing']}"


def _cells(results: Results) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """All cells, each with the name of its part of the page unless that is ``cells``."""
    for part, cells in results.items():
        if isinstance(cells, list):
            for cell in cells:
                if isinstance(cell, dict) and {"labels", "contenders"} <= cell.keys():
                    yield (() if part == "cells" else (part,)), cell


def _turns(results: Results) -> int:
    return int(results.get("protocol", {}).get("turns", 1))
