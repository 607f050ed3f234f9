"""``penstock doctor``: what this machine offers Penstock. One module per checked part."""
