"""``penstock demo`` and ``penstock record``: a run, from its plan to its summary."""
