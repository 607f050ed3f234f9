"""The names of the formats of a query's rows."""

from __future__ import annotations

__all__ = ["FORMATS"]

FORMATS = ("table", "csv", "json", "jsonl", "parquet")
