"""Metrics of ``penstock serve``: counted by each worker in shared memory, read by one thread."""
