"""A sink that keeps all rows in memory, for tests and short measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.record._columns.batch import SampleBatch
from penstock.record._sample import Sample
from penstock.record.schema import RecordSchema
from penstock.record.sink import SinkBase


class InMemorySink(SinkBase):
    """Keeps all batches in memory; they stay readable after ``close``. Grows without bound."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[SampleBatch] = []
        self.metadata: dict[str, Any] = {}

    async def open(
        self, schema: RecordSchema | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Keep the columns and the metadata."""
        if schema is not None:
            self._samples_schema = schema
        self.metadata.update(metadata or {})

    async def write_batch(self, batch: Any) -> None:
        """Keep a batch."""
        if not isinstance(batch, SampleBatch):
            batch = SampleBatch.from_arrow(batch)
        if len(batch):
            self.batches.append(batch)

    def add_metadata(self, facts: Mapping[str, Any]) -> None:
        """Keep facts in ``metadata``."""
        self.metadata.update(facts)

    async def close(self) -> None:
        """Nothing to finish."""

    @property
    def samples(self) -> list[Sample]:
        """Every row so far as a sample object."""
        return [sample for batch in self.batches for sample in batch]

    def __len__(self) -> int:
        return sum(len(batch) for batch in self.batches)

    def to_arrow(self) -> Any:
        """Every row so far as one ``pyarrow.Table``, in the columns known last."""
        from penstock.record.arrow import arrow_schema, pyarrow_module

        pa = pyarrow_module()
        if not self.batches:
            raise ValueError("nothing has been recorded yet: there are no columns to convert")
        schema = self.batches[-1].schema
        return pa.Table.from_batches(
            [batch.fitted(schema).to_arrow() for batch in self.batches],
            schema=arrow_schema(schema),
        )
