"""Rows of recordings for the tests, as Arrow tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from penstock.record import Field, RecordSchema, Sample, SampleBatch

START = 4_000_000_000_000_000_000  # in 2096: a live board takes samples before now as silence
FIELDS = (
    Field("Abs_Press", "float", "PSIA"),
    Field("Mass_Flow", "float", "SCCM"),
    Field("Mass_Flow_Setpt", "float", "SCCM"),
    Field("Gas", "text"),
)
SCHEMA = RecordSchema(FIELDS)
FLOW, AIM, PRESSURE = "Mass_Flow [SCCM]", "Mass_Flow_Setpt [SCCM]", "Abs_Press [PSIA]"


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(START / 1e9 + seconds, UTC)


def sample(
    device: str,
    seconds: float,
    value: float | None = None,
    *,
    setpoint: float = 100.0,
    status: str = "",
    error: str | None = None,
    event: str | None = None,
    message: str | None = None,
) -> Sample:
    at = moment(seconds)
    values: dict[str, Any] = {}
    if value is not None:
        values = {"Mass_Flow": value, "Mass_Flow_Setpt": setpoint, "Abs_Press": 14.7, "Gas": "Ar"}
    return Sample(
        device=device,
        unit_id="A",
        t_utc=at,
        t_mono_ns=round(seconds * 1e9),
        requested_at=at,
        received_at=at,
        latency_s=0.004,
        values=values,
        status=status if value is not None else None,
        error=error,
        event=event,
        message=message,
    )


def batch(samples: Sequence[Sample]) -> SampleBatch:
    return SampleBatch.from_samples(samples, SCHEMA)


def table(samples: Sequence[Sample]) -> Any:
    return batch(samples).to_arrow()


def wave(device: str, count: int, *, rate: float = 20.0, begin: float = 0.0) -> list[Sample]:
    return [sample(device, begin + n / rate, 100 + 50 * math.sin(n / 30)) for n in range(count)]
