"""``penstock dash``, and the dashboard beside ``penstock record`` and ``penstock demo``."""
