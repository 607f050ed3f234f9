"""What ``--metrics`` tells of a run."""

from __future__ import annotations

from penstock.cli._recording.network_sinks import NetworkSinks
from penstock.record import AcquisitionSummary
from penstock.record.metrics_text import LastValues, recording_metrics

__all__ = ["LiveMetrics"]


class LiveMetrics:
    """The page of a run: empty until it records.

    Attributes:
        last: the sink that gets the rows.
    """

    def __init__(self) -> None:
        self.last = LastValues()
        self._run: tuple[AcquisitionSummary, NetworkSinks] | None = None

    def attach(self, summary: AcquisitionSummary, network: NetworkSinks) -> None:
        """Tell of a recording from now on."""
        self._run = summary, network

    def page(self) -> str:
        """The page, for any thread."""
        if self._run is None:
            return ""
        summary, network = self._run
        return recording_metrics(summary, self.last, network.sinks)
