"""``penstock ports``, ``penstock term`` and ``penstock serial``."""
