"""A comparison of contenders: best peer, paired ratios, and their JSON, tables and panels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from benchmarks.measure.contenders import FLOOR, OURS, PYTHON_FLOOR, is_peer
from benchmarks.measure.plots import Panel
from benchmarks.measure.rounds import Outcome, about, alternate
from benchmarks.measure.spread import Spread, paired_ratio, spread
from benchmarks.measure.tables import figure, markdown_table


class Dataclass(Protocol):
    """A sample; its fields are written to the JSON unchanged."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


Sample = TypeVar("Sample", bound=Dataclass)
Row = TypeVar("Row")


@dataclass(frozen=True)
class Metric(Generic[Sample]):
    """One figure of a sample.

    Attributes:
        key: its name in the JSON, including the unit.
        heading: the sentence above its table, with the unit and the better direction.
        value: computes it from a sample.
        digits: decimals shown.
        scale: the shown unit: 1000 for thousands.
        more_is_better: whether the best peer has the largest figure.
        beside_floor: whether the table also has the ratio to the floor.
    """

    key: str
    heading: str
    value: Callable[[Sample], float]
    digits: int
    scale: float = 1.0
    more_is_better: bool = True
    beside_floor: bool = False

    def show(self, values: Spread) -> str:
        """The figure of a table's cell."""
        return figure(values, self.digits, self.scale)


@dataclass
class Comparison(Generic[Sample]):
    """The outcomes of all contenders under the same conditions, which ``labels`` names."""

    labels: tuple[str, ...]
    outcomes: dict[str, Outcome[Sample]]

    def __str__(self) -> str:
        return ", ".join(self.labels)

    def samples(self, name: str) -> list[Sample]:
        """The rounds of a contender; empty if it could not run or was not requested."""
        outcome = self.outcomes.get(name)
        return outcome.samples if outcome else []

    def values(self, name: str, metric: Metric[Sample]) -> list[float]:
        """A figure of each round."""
        return [metric.value(sample) for sample in self.samples(name)]

    def summary(self, name: str, metric: Metric[Sample]) -> Spread | None:
        """A figure's spread, None without rounds."""
        return spread(self.values(name, metric)) if self.samples(name) else None

    def peers(self) -> list[str]:
        """The measured contenders that Penstock is compared with."""
        return [name for name in self.outcomes if is_peer(name) and self.samples(name)]

    def best_peer(self, metric: Metric[Sample]) -> str | None:
        """The peer with the best median."""
        best = max if metric.more_is_better else min
        return best(
            self.peers(), key=lambda name: spread(self.values(name, metric)).median, default=None
        )

    def ours_to(self, name: str, metric: Metric[Sample]) -> Spread | None:
        """Penstock's figure over another's, round by round.

        None if one was not measured, or if there is no ratio because the other's is 0.
        """
        ours, theirs = self.values(OURS, metric), self.values(name, metric)
        if not ours or not theirs or 0 in theirs:
            return None
        return paired_ratio(ours, theirs)

    def missing(self) -> dict[str, str]:
        """Why a contender has no rounds, by its name."""
        return {
            name: outcome.missing
            for name, outcome in self.outcomes.items()
            if outcome.missing is not None
        }

    def as_json(self, metrics: Sequence[Metric[Sample]]) -> dict[str, object]:
        """All measurements as JSON values."""
        contenders: dict[str, object] = {}
        for name, outcome in self.outcomes.items():
            if outcome.missing is not None:
                contenders[name] = {"missing": outcome.missing}
                continue
            summaries: dict[str, object] = {
                metric.key: spread(self.values(name, metric)).as_json() for metric in metrics
            }
            record = {**summaries, "rounds": [asdict(each) for each in outcome.samples]}
            if outcome.old_samples:
                record["old_rounds"] = [asdict(each) for each in outcome.old_samples]
            contenders[name] = record
        others = [name for name in self.outcomes if name != OURS]
        return {
            "labels": list(self.labels),
            "contenders": contenders,
            "best_peer": {metric.key: self.best_peer(metric) for metric in metrics},
            "penstock_to": {
                metric.key: {
                    name: ratio.as_json()
                    for name in others
                    if (ratio := self.ours_to(name, metric)) is not None
                }
                for metric in metrics
            },
        }


def compare_in_rounds(
    rows: Mapping[tuple[str, ...], Row],
    contenders: Sequence[str],
    rounds: int,
    measure: Callable[[Row, str], Sample],
    say: Callable[[str], None],
) -> list[Comparison[Sample]]:
    """Measure row after row, the contenders of each in turn; see :func:`alternate`.

    Args:
        rows: by their labels.
        contenders: who takes turns.
        rounds: of each contender.
        measure: one round of a row and a contender.
        say: takes the lines of progress.
    """
    return [
        Comparison(
            labels,
            alternate(contenders, rounds, partial(measure, row), report=about(labels, say)),
        )
        for labels, row in rows.items()
    ]


def contenders_of(comparisons: Sequence[Comparison[Any]]) -> list[str]:
    """Who takes part in any of them, in the order in which they come."""
    return list(dict.fromkeys(name for each in comparisons for name in each.outcomes))


def metric_table(
    comparisons: Sequence[Comparison[Sample]],
    header: Sequence[str],
    contenders: Sequence[str],
    metric: Metric[Sample],
) -> str:
    """A row per comparison, a column per contender, and the ratio; ``header`` names the labels."""

    def cell(comparison: Comparison[Sample], name: str) -> str:
        summary = comparison.summary(name, metric)
        return "n/a" if summary is None else metric.show(summary)

    def to_peer(comparison: Comparison[Sample]) -> str:
        peer = comparison.best_peer(metric)
        ratio = comparison.ours_to(peer, metric) if peer is not None else None
        return "n/a" if ratio is None else f"{figure(ratio, 2)} {peer}"

    def to_floor(floor: str, comparison: Comparison[Sample]) -> str:
        ratio = comparison.ours_to(floor, metric)
        return "n/a" if ratio is None else figure(ratio, 2)

    # The ratios come first, so that they are in the first piece of a table that is split.
    ratios = {"penstock / best peer": to_peer}
    for floor in (FLOOR, PYTHON_FLOOR) if metric.beside_floor else ():
        if any(each.samples(floor) for each in comparisons):
            ratios[f"penstock / {floor}"] = partial(to_floor, floor)
    rows = [
        [
            *comparison.labels,
            *(ratio(comparison) for ratio in ratios.values()),
            *(cell(comparison, name) for name in contenders),
        ]
        for comparison in comparisons
    ]
    return markdown_table([*header, *ratios, *contenders], rows, labels=len(header))


def metric_tables(
    comparisons: Sequence[Comparison[Sample]],
    header: Sequence[str],
    contenders: Sequence[str],
    metrics: Sequence[Metric[Sample]],
) -> list[str]:
    """The heading and table of each metric."""
    parts = []
    for metric in metrics:
        parts += [metric.heading, metric_table(comparisons, header, contenders, metric)]
    return parts


def missing_list(comparisons: Sequence[Comparison[Sample]], *, label: int | None = 0) -> list[str]:
    """The paragraphs that explain each n/a; empty if there is none.

    Args:
        label: the index of the label that the reason is listed with; None for all labels.
    """
    reasons = {
        f"- {name}, {comparison if label is None else comparison.labels[label]}: {reason}"
        for comparison in comparisons
        for name, reason in comparison.missing().items()
    }
    return ["Not measured (n/a):", "\n".join(sorted(reasons))] if reasons else []


def own_failures(comparisons: Sequence[Comparison[Sample]]) -> list[str]:
    """The failures of Penstock or the floor; a run with such a gap is not a result."""
    return [
        f"{comparison}: {name}: {reason}"
        for comparison in comparisons
        for name, reason in comparison.missing().items()
        if name in (FLOOR, OURS)
    ]


def metric_panel(
    title: str,
    comparisons: Sequence[Comparison[Sample]],
    metric: Metric[Sample],
    group: Callable[[Comparison[Sample]], str],
) -> Panel:
    """One set of axes with a group of bars for each comparison."""
    contenders = {name: None for comparison in comparisons for name in comparison.outcomes}
    values = {
        name: [
            None if summary is None else _scaled(summary, metric.scale)
            for summary in (comparison.summary(name, metric) for comparison in comparisons)
        ]
        for name in contenders
    }
    return Panel(title, [group(comparison) for comparison in comparisons], values)


def _scaled(value: Spread, scale: float) -> Spread:
    return Spread(value.median / scale, value.low / scale, value.high / scale)
