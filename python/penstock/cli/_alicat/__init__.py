"""``penstock alicat``: one instrument."""
