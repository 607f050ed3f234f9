"""Stored recordings as Arrow tables, as far as they can be read. Nothing here is public."""
