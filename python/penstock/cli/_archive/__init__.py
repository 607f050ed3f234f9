"""``penstock archive``. Nothing here is public."""
