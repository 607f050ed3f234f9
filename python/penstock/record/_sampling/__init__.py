"""Polling at slots: cadence to rows, pushed readings, and the counts of a run."""
