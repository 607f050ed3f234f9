"""``penstock query``. Nothing here is public."""
