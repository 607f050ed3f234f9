"""``penstock dash``."""
